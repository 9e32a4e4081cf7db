"""Problems of kinds that the suite has not: attention, convolutions, windows, what moves elements, running totals."""
