"""Serves a folder on this machine, with the headers that let a page have threads: serve.py FOLDER [PORT]"""
import http.server
import sys


class Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript", ".wasm": "application/wasm"}

    def __init__(self, *args):
        super().__init__(*args, directory=sys.argv[1])

    def end_headers(self):
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()


port = int(sys.argv[2]) if len(sys.argv) > 2 else 8080
print(f"open http://localhost:{port}/ (end with Ctrl-C)", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
