"""Serves a small real language model on loopback, in the protocol of OpenAI: `python serve.py FILE.gguf`.

The first line of its output is the address. It knows neither tools nor response formats, and ignores both, as many
servers do. Answers are cut after `MOST_TOKENS` tokens or `MOST_SECONDS`.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

MOST_TOKENS, MOST_SECONDS = 300, 60.0


class Served:
    """The model with its tokeniser. One answer at a time."""

    def __init__(self, file: Path) -> None:
        self.name = file.stem
        self.tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        self.model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
        self.context = self.model.config.max_position_embeddings
        self.lock = threading.Lock()
        torch.manual_seed(0)

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body of the reply to a request."""
        messages = [{"role": m["role"], "content": m["content"] or ""} for m in body["messages"]]
        inputs = self.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        count = inputs["input_ids"].shape[1]
        limit = min(body.get("max_tokens") or MOST_TOKENS, MOST_TOKENS)
        if count + limit > self.context:
            error = {"code": "context_length_exceeded", "message": f"{count} tokens, at most {self.context}"}
            return 400, {"error": error}
        warm = (body.get("temperature") or 0) > 0
        settings = {"do_sample": True, "temperature": body["temperature"]} if warm else {"do_sample": False}
        with self.lock, torch.inference_mode():
            output = self.model.generate(**inputs, max_new_tokens=limit, max_time=MOST_SECONDS, **settings)
        made = output[0][count:]
        ended = made[-1].item() == self.tokenizer.eos_token_id
        message = {"role": "assistant", "content": self.tokenizer.decode(made, skip_special_tokens=True)}
        return 200, {
            "id": "served",
            "object": "chat.completion",
            "created": 0,
            "model": self.name,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop" if ended else "length"}],
            "usage": {
                "prompt_tokens": count,
                "completion_tokens": len(made),
                "total_tokens": count + len(made),
            },
        }


def main(file: Path) -> None:
    served = Served(file)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            status, answer = served.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            raw = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: object) -> None:
            sys.stderr.write(f"{format % args}\n")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}/v1\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
