#!/usr/bin/env python3
"""The cluster DNS of a test: answers for the names of Services, by asking the API server each time.

    cluster_names.py ADDRESS URL CERTIFICATE TOKEN

It listens on UDP port 53 of ADDRESS. A Service without an address of its own has those of its pods, another its own.
"""

import json
import socket
import ssl
import struct
import sys
import urllib.request

DOMAIN = ".svc.cluster.local"
A, NOT_FOUND, FAILED = 1, 3, 2


def addresses(asked, url, context, token):
    """The IPv4 addresses of NAME.NAMESPACE.svc.cluster.local; none (None) if there is no such Service."""
    labels = asked.removesuffix(DOMAIN).split(".")
    if not asked.endswith(DOMAIN) or len(labels) != 2:
        return None

    def get(kind):
        path = f"{url}/api/v1/namespaces/{labels[1]}/{kind}/{labels[0]}"
        request = urllib.request.Request(path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, context=context, timeout=2) as answer:
            return json.load(answer)

    try:
        own = get("services")["spec"]["clusterIP"]
        if own != "None":
            return [own]
        subsets = get("endpoints").get("subsets") or []
    except urllib.error.HTTPError as why:
        if why.code == 404:
            return None
        raise
    return [one["ip"] for subset in subsets for one in subset.get("addresses") or []]


def answer(query, look_up):
    """The answer to one query, as RFC 1035 has it (section 4.1)."""
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii"))
        at += 1 + query[at]
    question, (kind,) = query[12 : at + 5], struct.unpack_from("!H", query, at + 1)
    try:
        found, code = look_up(".".join(labels).lower()), 0
    except OSError as why:
        print(f"{labels}: {why}", file=sys.stderr, flush=True)
        found, code = None, FAILED
    if found is None and not code:
        code = NOT_FOUND
    found = (found or []) if kind == A else []
    # An answer, authoritative, with recursion as it was asked for; each record names the question, and holds for 1 s.
    head = query[:2] + struct.pack("!HHHHH", 0x8400 | query[2] << 8 & 0x100 | 0x80 | code, 1, len(found), 0, 0)
    records = [struct.pack("!HHHIH", 0xC00C, A, 1, 1, 4) + socket.inet_aton(one) for one in found]
    return head + question + b"".join(records)


def main():
    address, url, certificate, token = sys.argv[1:]
    context = ssl.create_default_context(cafile=certificate)
    asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asked.bind((address, 53))
    while True:
        query, whose = asked.recvfrom(512)
        try:
            asked.sendto(answer(query, lambda name: addresses(name, url, context, token)), whose)
        except (IndexError, UnicodeDecodeError, struct.error):
            pass  # This is no question.


if __name__ == "__main__":
    main()
