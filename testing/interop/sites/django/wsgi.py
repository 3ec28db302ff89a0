"""A small application: what it answers is said by the path."""

TOLD = ["REQUEST_METHOD", "REQUEST_URI", "PATH_INFO", "QUERY_STRING", "SCRIPT_NAME", "SERVER_PROTOCOL", "REQUEST_SCHEME",
        "REMOTE_ADDR", "SERVER_NAME", "SERVER_PORT", "HTTP_HOST", "HTTP_COOKIE", "HTTP_X_CSRFTOKEN", "HTTPS"]


def application(environ, start_response):
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(length) if length else b""
    path = environ["PATH_INFO"]
    name = path.rstrip("/").rsplit("/", 1)[-1]
    text = [("Content-Type", "text/html; charset=utf-8"), ("X-Frame-Options", "DENY")]
    if name == "login" and environ["REQUEST_METHOD"] == "POST":
        start_response("302 Found", [("Location", "/accounts/profile/"), ("Set-Cookie", "sessionid=abc; HttpOnly; Path=/")])
        return []
    if name == "login":
        start_response("200 OK", text + [("Set-Cookie", "csrftoken=x; Path=/"), ("Vary", "Cookie")])
        return [b"<form>"]
    if not path.endswith("/") and "." not in name:
        start_response("301 Moved Permanently", [("Location", path + "/"), ("Content-Length", "0")])
        return []
    if name == "missing":
        start_response("404 Not Found", text)
        return [b"<h1>Not Found</h1>"]
    if name == "broken":
        raise ValueError("broken")
    if name == "unready":
        start_response("503 Service Unavailable", text + [("Retry-After", "5")])
        return [b"later"]
    if name == "file.pdf":
        start_response("200 OK", [("Content-Type", "application/pdf"), ("X-Accel-Redirect", "/protected/file.pdf")])
        return []
    if name == "data.json":
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", "8"), ("ETag", '"d"')])
        return [b'{"a": 1}']
    if name == "nothing":
        start_response("204 No Content", [])
        return []
    if name == "long":
        start_response("200 OK", text)
        return [b"line %d\n" % number * 500 for number in range(20)]
    start_response("200 OK", text)
    lines = ["%s=%s\n" % (key, environ.get(key, "-")) for key in TOLD]
    return ["".join(lines).encode("latin-1"), b"%d %d\n" % (len(body), sum(body[:1000]))]
