"""An app that takes jobs: python3 app.py PORT, with the secret in LOCKSTEP_SECRET."""
import base64, hashlib, hmac, http.server, json, os, sys, threading, time

KEY = base64.b64decode(os.environ["LOCKSTEP_SECRET"].removeprefix("whsec_"))
seen, lock = {}, threading.Lock()  # the greatest fencing token by lane: keep it beside your data


class App(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or an answer's body waits 40 ms for the acknowledgement of its headers

    def do_POST(self):
        h, body = self.headers, self.rfile.read(int(self.headers["Content-Length"]))
        signed = f"{h['webhook-id']}.{h['webhook-timestamp']}.".encode() + body
        want = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
        mine = [s.partition(",")[2] for s in h.get("webhook-signature", "").split()]
        fresh = abs(time.time() - int(h["webhook-timestamp"])) < 300
        if not fresh or not any(hmac.compare_digest(want, s) for s in mine):
            return self.answer(401, {"error": "not signed by us"})
        key, token = h.get("Lockstep-Ordering-Key", "job " + h["webhook-id"]), int(h["Lockstep-Fencing-Token"])
        lane = (h["Lockstep-Queue"], h["Lockstep-Tenant"], key)  # each has an order, and tokens, of its own
        with lock:  # with the work itself, in one transaction, if it is in a database
            if token < seen.get(lane, 0):
                return self.answer(409, {"fencing_token": seen[lane]})
            seen[lane] = token
        print(h["Lockstep-Kind"], key, token, body.decode(), flush=True)  # the work
        self.answer(200, {"done": json.loads(body)})

    def answer(self, status, value):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), App).serve_forever()
