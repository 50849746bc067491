"""Records what the official SDK's redactor makes of many inputs, for tests/redaction.rs.

    python3 -m venv /tmp/sdk && /tmp/sdk/bin/pip install failproofai-sdk==0.0.1b6
    /tmp/sdk/bin/python tests/record/redaction_oracle.py > tests/fixtures/redaction/oracle.jsonl

Each line is {"input", "output"}; a string went through the SDK's text function, anything else through
its function for JSON events. Where this crate redacts more, "superset" says why and "ours" is what it
must make of the input, worked out by hand. Every credential is made up of a repeated letter.
"""

import json

from failproofai_sdk._redact import redact_json_line, scrub_string

PREFIXES = {
    "sk-ant-": 16, "sk-ant-api": 16, "sk-ant-api03-": 16, "sk-proj-": 16, "sk-": 16,
    "ghp_": 20, "gho_": 20, "ghu_": 20, "ghs_": 20, "ghr_": 20, "github_pat_": 20,
    "sb_secret_": 16, "sbp_": 20, "xoxb-": 16, "xoxp-": 16, "AKIA": 16, "ASIA": 16,
}
API_KEY = "sk-" + "a" * 16
SHORT_SUPABASE = "sbp_" + "a" * 16
BEARER = "Bearer " + "b" * 8
SECRET = "c" * 12
JWT = ".".join(["eyJ" + "a" * 12, "b" * 12, "c" * 12])


def texts():
    for prefix, least in PREFIXES.items():
        for more in (0, 1, least - 4, least - 1, least, least + 1, 3 * least):
            if not (prefix == "sbp_" and 16 <= more < 20):
                yield prefix + "d" * more
        token = prefix + "d" * least
        for before in ("a", "Z", "9", "_", "-", " ", "\n", "\"", "'", "(", "/", ":", "=", "é", "日", "😀", "\u00a0"):
            yield before + token
        for after in ("_", "-", ".", " ", "\"", "/", "é", "日", "😀", "=="):
            yield token + after
        yield f"use {token} and {token}, not {prefix}."
        yield token.swapcase()
        yield prefix + "-_" * least

    yield JWT
    yield "eyJ" + "a" * 40
    for segments in (["eyJ" + "a" * 30, "b" * 30], ["eyJ" + "a" * 12, "b" * 12, "c" * 10], ["eyJ" + "a" * 12, "b" * 12, "c" * 11],
                     ["eyJ" + "a" * 12, "b" * 12, "c" * 12, "d" * 12], ["eyJ", "b" * 20, "c" * 20], ["eyJ" + "a" * 30, "", "c" * 30],
                     ["eyJ" + "a" * 30, "b" * 30, ""], ["eyJ" + "a" * 12 + "==", "b" * 12 + "=", "c" * 12 + "="],
                     ["eyj" + "a" * 12, "b" * 12, "c" * 12], ["eyJ", "eyJ", "eyJ" + "a" * 40], ["eyJ_-" * 5, "_" * 12, "-" * 12]):
        yield ".".join(segments)
    for before in ("a", "_", " ", "\"", "=", ".", "é", "eyJ=", "eyJ.", "token=", "access_token=", "Bearer ", "bearer: "):
        yield before + JWT
    for after in (".", "..", "=", "é", " ", "\"", ".eyJ", "+", "/"):
        yield JWT + after
    yield "eyJ=" * 20 + "."
    yield "eyJ" * 20
    yield "eyJ" + "a" * 12 + "." + "b" * 12 + ".my_key=\"" + SECRET + "\""

    for scheme in ("Bearer ", "bearer ", "BEARER ", "bEaReR ", "Bearer  ", "Bearer\t", "Bearer", "Bearer:", "forbearer "):
        for value in ("b" * 7, "b" * 8, "b" * 9, "é" * 4, "é" * 3 + "b", "日" * 3, "b.c/d+e==", "{token}", "$TOKEN_NAME"):
            yield scheme + value
    for end in (" x", "\n", "\t", "\"", "'", ",", ";", "\u00a0x", "\u2003x", "\u3000x", "\x1cx", "\x1fx", "\x85x", "é", "\u200bx"):
        yield BEARER + end
    yield "bearer bearer bearer"
    yield "the bearer of this letter may enter"
    yield "Authorization: " + BEARER + "\r\nAccept: */*"
    yield "curl -H 'Authorization: " + BEARER + "' https://host.invalid/"
    yield BEARER + " " + BEARER

    for name in ("secret", "password", "passwd", "credential", "SECRET", "Password", "client_secret", "db-password", "userPasswd", "mycredential",
                 "api_key", "api-key", "apiKey", "API_KEY", "access_token", "accessToken", "KEY", "TOKEN", "Key", "kEy", "_key", "-key", "--key",
                 "--api-key", "api_key-", "api_key--", "-secret-", "key-", "key", "token", "monkey", "turkey", "keyboard", "secrets", "tokens",
                 "max_tokens", "key_id", "passwords", "password1", "key1", "éapi_key", "api.key", "a key", "", "-", "é"):
        for value in (SECRET, "c" * 11):
            yield f"{name}={value}"
    for value in ("c" * 13, "é" * 6, "é" * 5 + "c", "日" * 4, "c c c c c c c c", "c" * 6 + "\x1c" + "c" * 6, "c" * 12 + "\u3000c", "=" + SECRET, "==" + SECRET,
                  "{" + SECRET, "$" + SECRET, "${" + SECRET + "}", "<" + SECRET + ">", "(" + SECRET + ")", "`" + SECRET + "`", "[" + SECRET + "]",
                  "%" + SECRET, "c{" + SECRET, "[redacted:api-key]", "[redacted:secret-assignment]", API_KEY, API_KEY + "!rest", BEARER, JWT, JWT + "/rest",
                  "x" + API_KEY, "b_key=" + SECRET, "b_key=c", "c" * 6 + "&" + "c" * 12, "c" * 12 + "&x=y", "c" * 12 + ";x", "c" * 6 + ";c", "c" * 12 + ",x",
                  "c" * 12 + "\nx_key=" + "d" * 12, "https://host.invalid/" + "c" * 12):
        for quote in ("", "\"", "'"):
            yield f"a_key={quote}{value}{quote}"
    for text in ("a_key=\"" + SECRET, "a_key='" + SECRET, "a_key=\"" + SECRET + "'", "a_key=\"\"" + SECRET, "a_key='\"" + SECRET + "\"'", "a_key=\"it's " + SECRET + "\"",
                 "a_key=\"", "a_key=", "a_key", "=" + SECRET, "a_key = " + SECRET, "a_key: " + SECRET, "a_key==" + SECRET, "a_key=\"c c c c c c\" x", "key=\"" + SECRET + "\"",
                 "export A_KEY=" + SECRET + " B_TOKEN=" + "d" * 12, "https://host.invalid/?a_key=" + SECRET + "&b=1", "--api-key=" + SECRET + " --verbose",
                 "if key == other_key: return other_key", "primary_key=True, foreign_key=False", "sort(key=lambda item: item.name)", "the monkey=banana_and_so_on"):
        yield text
    yield from ("", " ", "a", "sk-", "sk-in and sk-out", "task-force-in-the-desk-drawer", "risk-aaaaaaaaaaaaaaaaaaaa", "AKIA", "eyJ", "日本語の文章です。", "\x00" * 20,
                "An ordinary sentence, with a semicolon; and a colon: here.", "a" * 100, "-" * 100, "_" * 100, "=" * 100, "sk-" * 20, "key=" * 20, "a_a_a_=" * 20)


def events():
    for name in ("api_key", "apiKey", "password", "Client-Secret", "key", "token", "monkey", "max_tokens", "text", "-key-", "to\u212aen", "api_\u212aey", "my secret",
                 "ÉKEY", "éKey", "ékey", "xÉkey", "credential", "KEY", ""):
        for value in (SECRET, "c" * 11, "é" * 6, "${" + SECRET + "}", "{" + SECRET, "<" + SECRET, "(" + SECRET, "`" + SECRET, "[redacted:other-kind]", "[" + SECRET,
                      API_KEY, f"x {API_KEY} y", "c" * 20 + " " + BEARER):
            yield {name: value}
    for value in (123456789012345, 1.5, True, None, [], {}, [SECRET, "short", [SECRET, {"text": SECRET}]], {"text": SECRET, "b_key": SECRET}, [1, None, SECRET, API_KEY]):
        yield {"a_key": value}
        yield {"text": value}
    yield [SECRET, API_KEY, {"a_key": [[SECRET]]}]
    yield {API_KEY: 1}
    yield {API_KEY: SECRET}
    yield {"a_key=" + SECRET: SECRET}
    yield {API_KEY + "_key": SECRET}
    keys = ["sk-" + letter * 16 for letter in "abcd"]
    yield {key: i for i, key in enumerate(keys)}
    yield {"z": 0, keys[0]: 1, "y": 2, keys[1]: 3, "x": 4}
    yield {"[redacted:api-key]": 1, keys[0]: 2, keys[1]: 3}
    yield {keys[0]: 1, "[redacted:api-key]": 2, keys[1]: 3}
    yield {keys[0]: 1, keys[1]: 2, "[redacted:api-key]#2": 3, keys[2]: 4}
    yield {"[redacted:api-key]#3": 1, keys[0]: 2, keys[1]: 3, keys[2]: 4, keys[3]: 5}
    yield {"events": [{"name": "call", "attributes": {"headers": {"authorization": BEARER, "x-api-key": SECRET}, "body": [{keys[0]: {keys[1]: keys[2]}}]}}]}
    deep = SECRET
    for _ in range(60):
        deep = {"a_key": [deep]}
    yield deep
    yield 5
    yield None
    yield ["plain", {"and": "simple"}]


SHORT_TOKEN = "the contract redacts sbp_ from 16 characters on, the SDK from 20"
JSON_TEXT = "a secret's field in JSON text within a string"
ESCAPED = "an assignment in quotes that are escaped"
S, A = "[redacted:supabase-key]", "[redacted:secret-assignment]"
SUPERSET = [
    (SHORT_TOKEN, SHORT_SUPABASE, S),
    (SHORT_TOKEN, "sbp_" + "a" * 19, S),
    (SHORT_TOKEN, f"use {SHORT_SUPABASE}.", f"use {S}."),
    (SHORT_TOKEN, {"text": [SHORT_SUPABASE]}, {"text": [S]}),
    (SHORT_TOKEN, {SHORT_SUPABASE: 1}, {S: 1}),
    (JSON_TEXT, f'{{"api_key":"{SECRET}"}}', f'{{"api_key":"{A}"}}'),
    (JSON_TEXT, f'{{"api_key": "{SECRET}", "n": 1}}', f'{{"api_key": "{A}", "n": 1}}'),
    (JSON_TEXT, f'{{ "password" :\n  "{SECRET}" }}', f'{{ "password" :\n  "{A}" }}'),
    (JSON_TEXT, f'{{\\"api_key\\": \\"{SECRET}\\"}}', f'{{\\"api_key\\": \\"{A}\\"}}'),
    (JSON_TEXT, f'{{\\\\\\"accessToken\\\\\\":\\\\\\"{SECRET}\\\\\\"}}', f'{{\\\\\\"accessToken\\\\\\":\\\\\\"{A}\\\\\\"}}'),
    (JSON_TEXT, f'{{"secret":"c\\"{SECRET}"}} rest', f'{{"secret":"{A}"}} rest'),
    (JSON_TEXT, f'{{"secret":"{SECRET}\\\\"}} rest', f'{{"secret":"{A}"}} rest'),
    (JSON_TEXT, f'{{\\"secret\\":\\"c\\\\\\"{SECRET}\\"}} rest', f'{{\\"secret\\":\\"{A}\\"}} rest'),
    (JSON_TEXT, f'{{"passwd":"{SECRET}', f'{{"passwd":"{A}'),
    (JSON_TEXT, f'{{"api_key":"c {API_KEY} c"}}', f'{{"api_key":"{A}"}}'),
    (SHORT_TOKEN, f'{{"api_key":"{SHORT_SUPABASE}"}}', f'{{"api_key":"{S}"}}'),
    (JSON_TEXT, f'{{"api_key":"{SHORT_SUPABASE} and {SECRET}"}}', f'{{"api_key":"{A}"}}'),
    (JSON_TEXT, f'"a_key":"c a_secret=\'c" {SECRET}', f'"a_key":"{A}'),
    (JSON_TEXT, {"body": f'{{"x-api-key":"{SECRET}"}}'}, {"body": f'{{"x-api-key":"{A}"}}'}),
    (ESCAPED, f'A_KEY=\\"{SECRET}\\" x', f'A_KEY=\\"{A}\\" x'),
    (ESCAPED, f"A_KEY=\\'{SECRET}\\' x", f"A_KEY=\\'{A}\\' x"),
]
# Near to those, and nothing more is redacted than the SDK redacts.
SAME = [
    f'{{"key":"{SECRET}"}}', f'{{"monkey":"{SECRET}"}}', '{"api_key":"' + "c" * 11 + '"}', '{"api_key":"${' + SECRET + '}"}', '{"api_key":"[redacted:other-kind]"}',
    f'{{"api_key":"{API_KEY}"}}', f'{{"api_key":"{API_KEY} rest"}}', f'{{"a_token":"{BEARER}"}}', '{"api_key":1234567890123}', f'{{"api_key":\\"{SECRET}\\"}}',
    f"a_key={SHORT_SUPABASE}", f"a_key={SHORT_SUPABASE}/rest", f'a_key="{SHORT_SUPABASE} rest"', {"a_key": SHORT_SUPABASE},
    f'"api_key" "{SECRET}"', f'"api_key",:"{SECRET}"', f'api_key":{SECRET}', '{"api_key":{"text":"' + SECRET + '"}}', f"A_KEY=\\{SECRET}\\", 'A_KEY=\\"$' + SECRET + '\\"',
]


def redacted(value):
    if isinstance(value, str):
        return scrub_string(value)[0]
    return json.loads(redact_json_line(json.dumps(value)))


for value in [*texts(), *SAME, *events()]:
    print(json.dumps({"input": value, "output": redacted(value)}))
for reason, value, ours in SUPERSET:
    print(json.dumps({"input": value, "output": redacted(value), "superset": reason, "ours": ours}))
