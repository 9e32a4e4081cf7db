"""Names of programs as C++ and Python identifiers that collide with nothing a rendered kernel says itself."""

_CPP = """
alignas alignof and asm auto bool break case catch char class const constexpr continue default delete do double else
enum explicit export extern false float for friend goto if inline int long mutable namespace new not operator or private
protected public register return short signed sizeof static struct switch template this throw true try typedef union
unsigned using virtual void volatile while xor
"""
_LIBRARY = """
maximum minimum sigmoid fast_sigmoid fast_exp fast_divide fast_raised_tanh divide_by fast_tanh fast_erf
absolute rescale c_remainder floor_remainder floor_divide power
infinity not_a_number before_maximum before_minimum exp log sqrt rsqrt sin cos tanh erf floor ceil round trunc abs pow
fmod div remainder max min y0 y1 j0 j1 jn yn j1f index time signal gamma begin end
"""
_DEVICE = """
Vector WordOf float16 bfloat16 to_float to_float16 to_bfloat16 load_cached load_streaming load_past_l1 load_partly
load_between store_between load_strided store_cached store_streaming store_partly store_strided shuffle_xor
reduce_across
cluster_rank cluster_arrive cluster_wait load_held load_from_peer fetch_from_peer blockIdx threadIdx blockDim gridDim
"""
_KERNELS = """
index_t row rows col columns lane slot tile chunk chunks vector count valid first last step stride warp partial scratch
shared total_rows split splits group groups part mine other peer peers rank at point points j u unroll threads inside
even memory base place identity merge highest all own_share other_share delta members extent workspace reps round
near crossing across flat shift shifted whole starts after_start before_end team teams runs large small square tail
"""
_PYTHON = """
torch cupy functools grid kernel stream lambda def None True False is in pass import with as del elif except finally
raise yield global nonlocal assert async await vec wide aligned blocks arguments options module
"""
RESERVED = frozenset(f"{_CPP} {_LIBRARY} {_DEVICE} {_KERNELS} {_PYTHON}".split())


def identifier(name: str) -> str:
    """A name of a program, value or statement as an identifier of both languages."""
    text = "".join(c if c.isalnum() else "_" for c in name)
    if not text or text[0].isdigit():
        text = f"v{text}"
    return f"{text}_" if text in RESERVED else text


def pointer_of(value: str) -> str:
    """The kernel argument for a value in memory."""
    return f"{identifier(value)}_data"
