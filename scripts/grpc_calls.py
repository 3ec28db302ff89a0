#!/usr/bin/env python3
"""gRPC's own client and server (the grpcio package) with something between them.

    grpc_calls.py serve PORT
    grpc_calls.py call PORT       says what each call came to, one line each

Messages are bytes: no protocol buffers are needed. scripts/grpc.sh runs both.
"""

import sys
import threading
import time
from concurrent import futures

import grpc

SERVICE = "test.Echo"


def echo(request, context):
    context.send_initial_metadata((("x-initial", "1"),))
    context.set_trailing_metadata((("x-trailing", "2"), ("x-bin-bin", b"\x00\x01\xff")))
    told = dict(context.invocation_metadata())
    return request + told.get("x-told", "").encode()


def fail(request, context):
    context.set_trailing_metadata((("x-why", "because"),))
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now: " + request.decode())


def slow(_request, context):
    # Until who asked gives it up: for ten seconds, if nobody does.
    until = time.monotonic() + 10
    while context.is_active() and time.monotonic() < until:
        time.sleep(0.02)
    return b"late"


def left(_request, context):
    # The deadline has come along.
    left = context.time_remaining()
    return b"none" if left is None or left > 1e6 else str(round(left, -1)).encode()


def count(request, _context):
    for number in range(int(request)):
        yield str(number).encode()


def gather(requests, _context):
    return str(sum(len(request) for request in requests)).encode()


def talk(requests, _context):
    for request in requests:
        yield b"<" + request + b">"


ENDED = threading.Event()


def endless(_request, context):
    context.add_callback(ENDED.set)
    while context.is_active():
        yield b"tick"
        time.sleep(0.01)


def has_ended(_request, _context):
    return b"1" if ENDED.wait(5) else b"0"


def serve(port):
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=32),
        options=(("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)),
    )
    handlers = {
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "Fail": grpc.unary_unary_rpc_method_handler(fail),
        "Left": grpc.unary_unary_rpc_method_handler(left),
        "Slow": grpc.unary_unary_rpc_method_handler(slow),
        "Count": grpc.unary_stream_rpc_method_handler(count),
        "Gather": grpc.stream_unary_rpc_method_handler(gather),
        "Talk": grpc.stream_stream_rpc_method_handler(talk),
        "Endless": grpc.unary_stream_rpc_method_handler(endless),
        "HasEnded": grpc.unary_unary_rpc_method_handler(has_ended),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    print("serving", flush=True)
    server.wait_for_termination()


def pairs(metadata, names):
    return sorted((key, value) for key, value in metadata or () if key in names)


def code_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return f"{error.code().name} {error.details()!r}"
    return "OK"


def calls(channel):
    path = f"/{SERVICE}/"
    unary, stream = channel.unary_unary, channel.unary_stream
    yield "unary", lambda: unary(path + "Echo")(b"hello", metadata=(("x-told", "!"),), timeout=20)
    yield "empty", lambda: unary(path + "Echo")(b"", timeout=20)
    yield "large", lambda: len(unary(path + "Echo")(b"x" * 3_000_000, timeout=60))

    def metadata():
        answer, call = unary(path + "Echo").with_call(b"m", timeout=20)
        trailing = pairs(call.trailing_metadata(), ("x-trailing", "x-bin-bin"))
        return answer, pairs(call.initial_metadata(), ("x-initial",)), trailing

    yield "metadata", metadata
    yield "status", lambda: code_of(lambda: unary(path + "Fail")(b"x", timeout=20))
    yield "unimplemented", lambda: code_of(lambda: unary(path + "None")(b"x", timeout=20))
    yield "deadline", lambda: code_of(lambda: unary(path + "Slow")(b"x", timeout=0.5)).split()[0]
    yield "time left", lambda: unary(path + "Left")(b"x", timeout=41)
    yield "server stream", lambda: len(list(stream(path + "Count")(b"1000", timeout=60)))
    yield "client stream", lambda: channel.stream_unary(path + "Gather")(iter([b"y" * 1000] * 500), timeout=60)

    def ping_pong():
        # Each message only once the one before came back: nothing may be held.
        come = threading.Semaphore(0)

        def requests():
            for number in range(50):
                yield str(number).encode()
                assert come.acquire(timeout=10), "a message was held"

        got = []
        for answer in channel.stream_stream(path + "Talk")(requests(), timeout=60):
            got.append(answer)
            come.release()
        return len(got), got[-1]

    yield "both ways", ping_pong

    def cancel():
        call = stream(path + "Endless")(b"", timeout=60)
        first = next(call)
        call.cancel()
        return first, unary(path + "HasEnded")(b"", timeout=20)

    yield "cancelled", cancel

    def many():
        waits = [unary(path + "Echo").future(str(number).encode(), timeout=60) for number in range(300)]
        return sum(answer.result() == str(number).encode() for number, answer in enumerate(waits))

    yield "many at a time", many


def call(port):
    options = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        for name, act in calls(channel):
            try:
                print(f"{name}: {act()}", flush=True)
            except Exception as why:  # what it came to is what is compared
                print(f"{name}: failed: {type(why).__name__} {why}", flush=True)


if __name__ == "__main__":
    {"serve": serve, "call": call}[sys.argv[1]](int(sys.argv[2]))
