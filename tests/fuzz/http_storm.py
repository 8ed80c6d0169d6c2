#!/usr/bin/env python3
"""A structure-aware fuzzer of the running service, over sockets.

Builds valid requests of every route and parameter that openapi.yaml knows, changes their structure (verb, target, version,
header lines, lengths, chunks, parts of forms, bytes), sends them whole, in pieces, several on one connection, slowly, or
leaves in the middle. Fails when the service dies, answers anything but HTTP or a 500, leaves a sound request without an
answer, stops answering /healthz, keeps a job or the bytes of an upload, or does not end well on SIGTERM.

  tests/fuzz/http_storm.py --build build/asan [--seconds 10] [--seed 1] [--clients 4] [--case N]

Every case follows from the seed and its number: --case runs that one alone. Only the standard library is used.
"""
import argparse
import json
import os
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib

KNOWN = {100, 200, 204, 304, 400, 401, 403, 404, 405, 406, 408, 411, 413, 414, 415, 417, 422, 429, 431, 501, 503, 504, 505}
HEALTH_S = 10.0  # under a sanitizer on a busy machine; the service itself needs some milliseconds
ANSWER_S = 60.0


class Finding(Exception):
    pass


# ---- what may be asked ----

def read_contract(path):
    """Routes as (verb, path) and parameters as name -> schema, from the lines of openapi.yaml."""
    routes, schemas, here, name = [], {}, None, None
    section = None
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.startswith(" ") and line.rstrip().endswith(":"):
                section = line.strip()
            route = re.match(r"  (/\S*):$", line)
            verb = re.match(r"    (get|post|delete):$", line)
            named = re.match(r"      name: (\S+)$", line)
            schema = re.match(r"      schema: (\{\".*\})$", line)
            if section == "paths:" and route:
                here = route.group(1)
            elif section == "paths:" and verb:
                routes.append((verb.group(1).upper(), here))
            elif named:
                name = named.group(1)
            elif schema and name:
                schemas[name] = json.loads(schema.group(1))
                name = None
    return routes, schemas


def png(rng):
    width, height = rng.randint(1, 40), rng.randint(1, 40)
    colour, channels = rng.choice([(0, 1), (2, 3), (4, 2), (6, 4)])

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + rng.randbytes(width * channels) for _ in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def value_of(rng, name, schema):
    """A value within the schema; now and then one that is not."""
    if rng.random() < 0.1:
        return rng.choice(["", "-1", "nan", "1e400", "0x10", "all", "\xe9", "a" * 300, "1,1", "%00", "99999999999999999999"])
    fixed = {"class": ["0", "9", "cat", "top1", "top1,top2", "1,2,3"], "versus": ["3", "dog"], "layer": ["0", "-1", "0,2", "all"],
             "head": ["0", "all", "1,2"], "query": ["cls", "token:7", "xy:3,4.5"], "image_size": ["32", "64x96", "48"],
             "texts": ["a cat|a dog"], "background": ["white", "#102030", "none"], "model": ["default"],
             "deadline_ms": ["1", "50", "60000"], "top": ["1", "5"], "channel": ["0", "1,2", "all"],
             "image_id": ["sha256:" + "0" * 64]}
    if name in fixed:
        return rng.choice(fixed[name])
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if kind == "array":
        items = schema.get("items", {})
        if "enum" in items:
            return ",".join(rng.sample(items["enum"], rng.randint(1, min(3, len(items["enum"])))))
        return ",".join(str(rng.randint(0, 5)) for _ in range(rng.randint(1, 3)))
    if kind == "integer":
        low = schema.get("minimum", 0)
        return str(rng.randint(low, min(schema.get("maximum", 20), low + 20)))
    if kind == "number":
        low, high = schema.get("minimum", 0.0), schema.get("maximum", 1.0)
        return "%.4g" % rng.uniform(low, min(high, low + 4))
    if kind == "boolean":
        return rng.choice(["true", "false"])
    return str(schema.get("default", "x"))


class Request:
    """Before it is bytes: verb, target, version, header lines, body, how the body is framed."""

    def __init__(self, rng, contract):
        routes, schemas = contract
        self.verb, path = rng.choice(routes + [r for r in routes if r[0] == "POST"] * 6)
        self.sound = True
        self.version = b"HTTP/1.1"
        self.lines = [b"Host: t"]
        self.body = b""
        self.chunked = False
        self.close = rng.random() < 0.3
        pairs, fields = [], []
        if self.verb == "GET" and rng.random() < 0.2:
            self.verb = "HEAD"
        path = path.replace("{id}", "sha256:" + "0" * 64).replace("{file}", rng.choice(["app.js", "style.css", "none"]))
        if path == "/labels" and rng.random() < 0.5:
            pairs += [("q", "cat"), ("limit", "3")]
        if self.verb == "POST":
            pairs, fields = self.parameters(rng, path, schemas)
            self.picture(rng, fields)
        query = "&".join(n + "=" + self.escape(rng, v) for n, v in pairs)
        self.target = (path + ("?" + query if query else "")).encode("utf-8", "replace")
        if rng.random() < 0.3:
            self.lines.append(b"X-Request-Id: case-%d" % rng.randrange(1000))
        if rng.random() < 0.2:
            self.lines.append(b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        if rng.random() < 0.2:
            self.lines.append(b"Origin: " + rng.choice([b"http://viewer.example", b"http://other.example", b"null"]))

    @staticmethod
    def escape(rng, text):
        return "".join(c if c.isalnum() or c in "-_.,:" and rng.random() < 0.9
                       else "".join("%%%02X" % b for b in c.encode()) for c in text)

    def parameters(self, rng, path, schemas):
        methods = re.findall(r"[a-z_0-9]+", schemas["method"]["pattern"].split("|(")[0].split(")")[0])
        names = rng.sample(sorted(set(schemas) - {"method"}), rng.choice([0, 0, 1, 1, 2, 4]))
        if path == "/predict":
            names = [n for n in names if n in ("top", "exif", "fit", "background", "image_size", "deadline_ms")]
        pairs = [(n, value_of(rng, n, schemas[n])) for n in names]
        if path == "/explain" and rng.random() < 0.9:
            pairs.append(("method", ",".join(rng.sample(methods, rng.choice([1, 1, 1, 2, 3])))))
        rng.shuffle(pairs)
        cut = rng.randint(0, len(pairs))
        return pairs[:cut], pairs[cut:]

    def picture(self, rng, fields):
        data = png(rng)
        if rng.random() < 0.1:
            data = data[:rng.randint(0, len(data))]
        if not fields and rng.random() < 0.5:
            self.lines.append(b"Content-Type: image/png")
            self.body = data
        else:
            boundary = b"b%08x" % rng.getrandbits(32)
            parts = [(b'form-data; name="%s"' % n.encode(), v.encode("utf-8", "replace")) for n, v in fields]
            parts.append((b'form-data; name="img"; filename="x.png"', data))
            if rng.random() < 0.15:
                parts.append((b'form-data; name="mask"; filename="m.png"', png(rng)))
            rng.shuffle(parts)
            self.parts, self.boundary = parts, boundary
            self.lines.append(b"Content-Type: multipart/form-data; boundary=" + boundary)
            self.body = b"".join(b"--" + boundary + b"\r\nContent-Disposition: " + head + b"\r\n\r\n" + text + b"\r\n"
                                 for head, text in parts) + b"--" + boundary + b"--\r\n"
        self.chunked = rng.random() < 0.3
        if rng.random() < 0.3:
            self.lines.append(b"Accept: " + rng.choice([b"application/json", b"image/png", b"text/event-stream", b"*/*"]))

    def framed(self, rng):
        """Header and body as bytes."""
        lines, body = list(self.lines), self.body
        if self.close:
            lines.append(b"Connection: close")
        if self.verb == "POST":
            if self.chunked:
                lines.append(b"Transfer-Encoding: chunked")
                out, at = [], 0
                while at < len(body):
                    n = rng.randint(1, max(1, len(body) // 2))
                    piece = body[at:at + n]
                    out.append(b"%x\r\n" % len(piece) + piece + b"\r\n")
                    at += n
                body = b"".join(out) + b"0\r\n\r\n"
            else:
                lines.append(b"Content-Length: %d" % len(body))
        return lines, body

    def bytes(self, rng, changes):
        lines, body = self.framed(rng)
        verb = self.verb.encode()
        for _ in range(changes):
            self.sound = False
            verb, lines, body = self.change(rng, verb, lines, body)
        end = b"\r\n"
        data = verb + b" " + self.target + b" " + self.version + end + b"".join(x + end for x in lines) + end + body
        if changes and rng.random() < 0.25:  # anything, anywhere
            data = bytearray(data)
            for _ in range(rng.randint(1, 8)):
                at = rng.randrange(len(data))
                kind = rng.randrange(3)
                if kind == 0:
                    data[at] = rng.randrange(256)
                elif kind == 1:
                    del data[at:at + rng.randint(1, 20)]
                else:
                    data[at:at] = rng.choice([b"\0", b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"%", b"--", b"\xff"])
                if not data:
                    break
            data = bytes(data)
        return data

    def change(self, rng, verb, lines, body):
        kind = rng.randrange(22)
        if kind == 0:
            verb = rng.choice([b"get", b"PUT", b"PATCH", b"TRACE", b"CONNECT", b"OPTIONS", b"X" * 400, b"", b"P\0ST"])
        elif kind == 1:
            self.target = rng.choice([b"*", b"/", b"//explain", b"http://t/explain", b"/explain?" + b"a" * 17000, b"/%2e%2e/etc",
                                      b"/explain#x", b"explain", b"/explain?=1", b"/explain?" + b"a=1&" * 200, b"/\xff", b"/%zz",
                                      b"/explain?method=%00", b"", b"/images/" + b"a" * 2000, b"/ui/../app.js"])
        elif kind == 2:
            self.version = rng.choice([b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.1 ", b"http/1.1", b"", b"HTTP/9999.1"])
        elif kind == 3 and lines:
            lines.append(rng.choice(lines))
        elif kind == 4 and lines:
            lines.pop(rng.randrange(len(lines)))
        elif kind == 5 and lines:
            at = rng.randrange(len(lines))
            lines[at] = lines[at].replace(b":", rng.choice([b" :", b"", b"::", b":\r\n ", b":\0"]), 1)
        elif kind == 6:
            lines.insert(rng.randint(0, len(lines)), rng.choice(
                [b": x", b"X" * 9000 + b": y", b"X: " + b"y" * 40000, b"A:\r\n\tb", b"\x80: 1", b"Expect: 100-continue",
                 b"Expect: x", b"Content-Encoding: gzip", b"Accept: " + b"a/b," * 3000, b"Connection: upgrade", b"Upgrade: h2c",
                 b"Transfer-Encoding: identity", b"Content-Length: +5", b"TE: trailers", b"Authorization: Bearer x"]))
        elif kind == 7:
            lines += [b"X-%d: %d" % (k, k) for k in range(rng.choice([50, 300, 2000]))]
        elif kind in (8, 9):
            lines = [x for x in lines if not x.startswith(b"Content-Length")]
            length = rng.choice([b"0", b"1", b"-1", b"99999999999999999999", b"0x10", b"5 5", b"5,5", b"", b"1e3",
                                 b"%d" % (len(body) + rng.randint(1, 50)), b"%d" % max(0, len(body) - rng.randint(1, 50)),
                                 b"%d" % (200 << 20)])
            lines.append(b"Content-Length: " + length)
        elif kind in (10, 11):
            lines.append(b"Transfer-Encoding: " + rng.choice([b"chunked", b"gzip, chunked", b"chunked, chunked", b"Chunked ",
                                                              b"identity", b"xchunked", b"chunked;a=b"]))
        elif kind in (12, 13) and self.chunked:
            size = rng.choice([b"zz", b"-1", b"FFFFFFFFFFFFFFFF", b"fffffffffffffffff", b"", b"0x5", b"5;ext=\"a", b" 5", b"5 ",
                               b"0" * 300 + b"5"])
            body = rng.choice([size + b"\r\n", body[:-5] + size + b"\r\n", body.replace(b"\r\n", b"\n", 1), body[:-2] + b"X: y\r\n\r\n",
                               body[:-2] + b"T: " + b"z" * 5000 + b"\r\n" * 2, body.replace(b"\r\n", b"", 1)])
        elif kind in (14, 15, 16) and getattr(self, "parts", None):
            edge = b"--" + self.boundary
            body = rng.choice([
                body.replace(edge + b"--", b""), body.replace(edge, edge + b" ", 1), body.replace(edge, edge + b"x"),
                body.replace(b"name=", b"nam=", 1), body.replace(b"\r\n\r\n", b"\r\n", 1), body.replace(b'"img"', b'"img2"'),
                body.replace(edge + b"--", body), b"preamble\r\n" + body + b"epilogue", body * 2,
                body.replace(b"Content-Disposition", b"Content-Disposition: form-data\r\nContent-Disposition", 1),
                body.replace(b"name=\"img\"", b"name=\"" + b"n" * rng.choice([300, 9000]) + b"\""),
                body.replace(edge, (edge + b"\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n") * 70 + edge, 1),
                body.replace(b"Content-Disposition", b"Content-Transfer-Encoding: base64\r\nContent-Disposition", 1)])
            if not self.chunked and rng.random() < 0.8:
                lines = [b"Content-Length: %d" % len(body) if x.startswith(b"Content-Length") else x for x in lines]
        elif kind == 17:
            body = body[:rng.randint(0, len(body))]
        elif kind == 18:
            body += rng.randbytes(rng.randint(1, 300))
        elif kind == 19 and lines:
            lines = [x for x in lines if not x.startswith(b"Content-Type")]
            lines.append(b"Content-Type: " + rng.choice(
                [b"multipart/form-data", b"multipart/form-data; boundary=", b"multipart/form-data; boundary=\"" + b"b" * 80 + b"\"",
                 b"text/plain", b"image/", b"/", b"", b"application/json", b"multipart/form-data; boundary=a; boundary=b",
                 b"application/x-www-form-urlencoded", b"multipart/mixed; boundary=zz", b"image/png; \xff=1"]))
        elif kind == 20:
            lines.insert(0, b"Host: " + rng.choice([b"a b", b"", b"t:99999", b"\xff"]))
        else:
            rng.shuffle(lines)
        return verb, lines, body


# ---- what comes back ----

def take_response(data, is_head, ended=False):
    """One response at the head of data: (status, headers, body, rest); None when it is not complete. ended: no more comes."""
    head, mark, rest = data.partition(b"\r\n\r\n")
    if not mark:
        if data and not b"HTTP/1.".startswith(data[:7]):
            raise Finding("no HTTP comes back: %r" % data[:80])
        return None
    first, *lines = head.split(b"\r\n")
    good = re.fullmatch(rb"HTTP/1\.[01] (\d\d\d) [ -~]*", first)
    if not good:
        raise Finding("no HTTP comes back: %r" % data[:80])
    status, headers = int(good.group(1)), {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not re.fullmatch(rb"[A-Za-z0-9-]+", name) or re.search(rb"[\0\r\n]", value):
            raise Finding("a header line is broken: %r" % line[:120])
        headers[name.lower()] = value.strip()
    if is_head or status in (100, 204, 304):
        return status, headers, b"", rest
    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        body = b""
        while True:
            size, mark, rest = rest.partition(b"\r\n")
            if not mark:
                return None
            if not re.fullmatch(rb"[0-9A-Fa-f]+", size):
                raise Finding("a chunk is broken: %r" % size[:80])
            n = int(size, 16)
            if len(rest) < n + 2:
                return None
            body, rest = body + rest[:n], rest[n + 2:]
            if n == 0:
                return status, headers, body, rest
    if b"content-length" not in headers:
        if headers.get(b"connection", b"").lower() != b"close":
            raise Finding("an answer without a length: %r" % head[:200])
        return (status, headers, rest, b"") if ended else None  # to clients of HTTP/1.0
    n = int(headers[b"content-length"])
    return (status, headers, rest[:n], rest[n:]) if len(rest) >= n else None


def refuse_constant(text):
    raise Finding("a number that is none: " + text)


def check_response(status, headers, body, is_head):
    if status not in KNOWN:
        raise Finding("status %d: %r" % (status, body[:300]))
    kind = headers.get(b"content-type", b"")
    if is_head or not body:
        return
    if kind.startswith((b"application/json", b"application/problem+json")):
        try:
            document = json.loads(body.decode("utf-8"), parse_constant=refuse_constant)
        except ValueError as fault:
            raise Finding("a body is no JSON (%s): %r" % (fault, body[:200])) from fault
        if kind.startswith(b"application/problem+json") and document.get("status") != status:
            raise Finding("the problem says another status than %d: %r" % (status, body[:200]))
    elif kind.startswith(b"image/png") and not body.startswith(b"\x89PNG\r\n\x1a\n"):
        raise Finding("a picture is none")
    elif kind.startswith(b"text/event-stream"):
        events = re.findall(rb"^event: (\w+)$", body, re.M)
        if not events or events[-1] not in (b"result", b"error"):
            raise Finding("an event stream ends with %r" % events[-1:])


# ---- one case ----

def deliver(rng, sock, data, pieces):
    if not pieces:
        sock.sendall(data)
        return
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(pieces))
    for a, b in zip([0] + cuts, cuts + [len(data)]):
        sock.sendall(data[a:b])
        time.sleep(rng.choice([0, 0, 0.001, 0.004]))


def read_answers(sock, requests, sound, patience, slow):
    """Answers until all are there, the end, or silence (which only a sound request may not be met with)."""
    heads = [r.verb == "HEAD" for r in requests]
    data, answers, until, ended = b"", [], time.monotonic() + patience, False
    while len(answers) < len(requests):
        got = take_response(data, heads[len(answers)], ended)
        if got:
            status, headers, body, data = got
            check_response(status, headers, body, heads[len(answers)])
            if status != 100:
                answers.append(status)
            if headers.get(b"connection", b"").lower() == b"close":
                return answers
            continue
        left = until - time.monotonic()
        if not ended and (left <= 0 or not select.select([sock], [], [], left)[0]):
            if sound:
                raise Finding("no answer within %g s; so far %r, then %r" % (patience, answers, data[:100]))
            return answers
        if slow:
            time.sleep(0.002)
        piece = b"" if ended else sock.recv(700 if slow else 1 << 16)
        if not piece and not ended and data:
            ended = True
            continue
        if not piece:
            if sound:
                raise Finding("closed after %d of %d answers, in the middle of %r" % (len(answers), len(requests), data[:100]))
            return answers
        data += piece
    return answers


def run_case(seed, number, port, contract):
    """Returns the answers' statuses; raises Finding."""
    rng = random.Random("%d/%d" % (seed, number))
    sound = rng.random() < 0.35
    # a HEAD among changed requests: nobody could tell what an answer belongs to
    requests = []
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        request = Request(rng, contract)
        if not sound and request.verb == "HEAD":
            request.verb = "GET"
        requests.append(request)
    if sound:
        for request in requests[:-1]:
            request.close = False
    data = b"".join(r.bytes(rng, 0 if sound else rng.choice([1, 1, 2, 4])) for r in requests)
    sock = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        leaving = None if sound else rng.choice([None, None, None, "reset", "half", "cut", "leave"])
        if leaving == "cut":
            data = data[:rng.randint(0, len(data))]
        pieces = rng.choice([0, 0, 1, 3, 10])
        try:
            deliver(rng, sock, data, pieces)
            if leaving == "reset":
                time.sleep(rng.choice([0, 0.002, 0.02]))
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return []
            if leaving == "leave":
                return []
            if leaving in ("half", "cut"):
                sock.shutdown(socket.SHUT_WR)
            return read_answers(sock, requests, sound, ANSWER_S if sound else rng.choice([0.05, 0.3]), rng.random() < 0.1)
        except OSError as fault:
            if sound:
                raise Finding("the connection breaks: %s" % fault) from fault
            return []
    except Finding as finding:
        raise Finding("%s\n  sent: %r%s" % (finding, data[:1500], "..." if len(data) > 1500 else "")) from finding
    finally:
        sock.close()


# ---- the service ----

def ask(port, target, patience):
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as sock:
        sock.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
        data = b""
        while True:
            got = take_response(data, False)
            if got:
                return got[0], got[2]
            piece = sock.recv(65536)
            if not piece:
                raise Finding("%s is closed without an answer" % target.decode())
            data += piece


def figure(text, name):
    found = re.search(r"^vitral_%s (\S+)$" % name, text, re.M)
    return float(found.group(1)) if found else None


class Storm:
    def __init__(self, options):
        self.options = options
        self.contract = read_contract("openapi.yaml")
        if len(self.contract[0]) < 10 or len(self.contract[1]) < 30:
            raise SystemExit("http_storm: openapi.yaml is not understood any more")
        self.lock, self.next, self.findings, self.statuses = threading.Lock(), 0, [], {}
        self.slowest, self.healths = 0.0, 0
        self.until = 0.0

    def start(self):
        self.log = tempfile.TemporaryFile()
        words = ["--listen", "127.0.0.1:0", "--workers", "2", "--queue", "6", "--max-cost", "60", "--deadline-ms", "4000",
                 "--upload-timeout-ms", "5000", "--connection-timeout-s", "6", "--upload-max-bytes", "200000", "--pixels-max",
                 "100000", "--cache-bytes", "300000", "--held-bytes", "200000", "--cors-origins", "http://viewer.example"]
        self.server = subprocess.Popen([os.path.join(self.options.build, "vitrald")] + words, stdout=subprocess.PIPE,
                                       stderr=self.log)
        line = self.server.stdout.readline().decode()
        found = re.match(r"listening on http://127\.0\.0\.1:(\d+)$", line.strip())
        if not found:
            self.server.wait()
            raise SystemExit("http_storm: the service does not start: %r %r" % (line, self.tail()))
        self.port = int(found.group(1))

    def tail(self):
        self.log.seek(0)
        lines = self.log.read().decode("utf-8", "replace").splitlines()
        plain = [x for x in lines if not x.startswith('{"time"')]
        return "\n".join((plain or lines)[:60])

    def fail(self, text):
        with self.lock:
            self.findings.append(text)

    def client(self):
        while time.monotonic() < self.until and not self.findings:
            with self.lock:
                number, self.next = self.next, self.next + 1
            self.one(number)

    def one(self, number):
        try:
            answers = run_case(self.options.seed, number, self.port, self.contract)
        except Finding as finding:
            self.fail("case %d: %s" % (number, finding))
            return
        except OSError as fault:
            self.fail("case %d: %s" % (number, fault))
            return
        with self.lock:
            for status in answers or ["none"]:
                self.statuses[status] = self.statuses.get(status, 0) + 1

    def watch(self):
        while time.monotonic() < self.until and not self.findings:
            since = time.monotonic()
            try:
                status, _ = ask(self.port, b"/healthz", HEALTH_S)
                if status != 200:
                    self.fail("/healthz says %d" % status)
            except (Finding, OSError) as fault:
                self.fail("/healthz does not answer: %s" % fault)
            self.slowest = max(self.slowest, time.monotonic() - since)
            self.healths += 1
            time.sleep(0.05)

    def settle(self):
        """Nothing may be left: no job, no upload, no connection but ours."""
        wanted = {"inflight": 0, "queue_depth": 0, "upload_bytes_in_use": 0, "connections": 1}
        text, until = "", time.monotonic() + 30
        while time.monotonic() < until:
            _, body = ask(self.port, b"/metrics", ANSWER_S)
            text = body.decode()
            if all(figure(text, name) == value for name, value in wanted.items()):
                return
            time.sleep(0.05)
        self.fail("left behind: " + ", ".join("%s %s" % (name, figure(text, name)) for name in wanted))

    def end(self):
        if self.server.poll() is not None:
            self.fail("the service has ended with %d:\n%s" % (self.server.returncode, self.tail()))
            return
        if not self.findings:
            try:
                self.settle()
            except (Finding, OSError) as fault:
                self.fail("after the storm: %s" % fault)
        self.server.send_signal(signal.SIGTERM)
        try:
            code = self.server.wait(60)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
            self.fail("the service does not end on SIGTERM")
            return
        if code != 0:
            self.fail("the service ends with %d:\n%s" % (code, self.tail()))

    def run(self):
        options = self.options
        self.start()
        since = time.monotonic()
        self.until = since + options.seconds
        if options.case is not None:
            self.one(options.case)
            self.next = 1
        else:
            threads = [threading.Thread(target=self.client) for _ in range(options.clients)]
            threads.append(threading.Thread(target=self.watch))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        seconds = time.monotonic() - since
        self.end()
        print("http_storm: seed %d, %d cases in %.1f s, answers: %s; /healthz asked %d times, slowest %.0f ms" % (
            options.seed, self.next, seconds, ", ".join("%s x %d" % x for x in sorted(self.statuses.items(), key=str)),
            self.healths, self.slowest * 1000))
        for text in self.findings[:3]:
            print("http_storm: FINDING with seed %d: %s" % (options.seed, text))
        return 1 if self.findings else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.environ.get("VITRAL_BUILD", "build"))
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--case", type=int)
    sys.exit(Storm(parser.parse_args()).run())


main()
