"""Ids that media trip over, in kinds, and what is no id."""

from __future__ import annotations

__all__ = ["KINDS", "NO_IDS", "WHOLE"]


def _words(text: str) -> list[str]:
    return text.split(" ")


KINDS: dict[str, list[str]] = {
    "slashes, dots and backslashes": _words(
        "a/b a//b a/ /a a a/./b a/../b . .. ../.. ../../a ... .a a. a\\b ..\\a C:\\a C:a ~ ~/a file:///a a/b/c a/b/"
    ),
    "white spaces": [
        *(" ", "  ", " a", "a ", "a  b", "a b", "ab", "a\tb", "a\nb", "a\r\nb", "a\n", "\na"),
        *("a\u00a0b", "a\u2028b", "a\u3000b", "a\u200bb"),
    ],
    "upper and lower case": _words("Order order ORDER oRDER straße strasse STRASSE I i \u0130 \u0131 Σ \u03c3 ς"),
    "accents, composed and not,": _words(
        "\u00e9 e\u0301 e \u00c5 A\u030a \u212b \ufb01 fi \u1e69 s\u0323\u0307 s\u0307\u0323 \uac00 \u1100\u1161"
    ),
    "emoji and many alphabets": _words(
        "😀 👩\u200d👩\u200d👧 ☕ ☕\ufe0f 日本語 한글 עברית \u202eabc ไทย \U0010ffff \uffff \ufeffa a \ufffd"
    ),
    "percent signs and other escapes": _words(
        "a/b a%2Fb a%2fb a a%00 %61 % %% %00 100% a+b a%20b a%2Bb a&b=c a?b a#b a;b a=b a&amp;b \\u0061 \\0 =41 &#97;"
    ),
    "wildcards, quotes and brackets": _words(
        "a* a? a[b] a_b axb a%b ' \" '' a';drop {a} <a> $a `a` a|b ^a a,b (a) !a @a a{b} ab"
    ),
    "control characters": [f"a{chr(code)}b" for code in (*range(1, 32), 127, 0x80, 0x85, 0x9F)],
    "names that Windows reserves": [*_words("CON con con.txt NUL nul aux COM1 com1.a LPT1 a:b a. a con/a a/nul"), "a "],
    "names of metadata": _words(
        ".blob .tmp a a.tmp a.lock .lock a.blob a.json a.meta a:meta a~ __proto__ None null 0 -1 1 1.0 01 1e3 True"
    ),
}
"""Ends of ids, all different within a kind; they follow a prefix that ends in a slash."""

WHOLE: list[str] = [
    *_words("{} /{} //{} ../{} ./{} ..{} .{} ~{} %2e%2e/{} C:\\{} CON.{} -{} --{} _{} \ufeff{} é{} 😀{} #{} *{}"),
    *(" {}", "\n{}"),
]
"""Whole ids whose beginning is odd; the braces stand for something unique."""

NO_IDS: dict[str, str] = {
    "the empty text": "",
    "a NUL alone": "\0",
    "a NUL inside": "a\0b",
    "a lone high surrogate": "a\ud83d",
    "a lone low surrogate": "\ude00b",
    "513 ASCII characters": "a" * 513,
    "257 characters of 2 bytes": "é" * 257,
    "129 characters of 4 bytes": "😀" * 129,
}
"""Texts that are no ids, each with what it is."""
