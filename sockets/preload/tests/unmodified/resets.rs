//! What a program writes before it closes with a reset: on the kernel's sockets it has left by then.

use crate::lives::{PYTHON, connect, python};
use interop::{Running, in_namespace, wait_for};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

const CLIENTS: usize = 12;

/// It answers nobody before all have asked, so that no answer is the last of those that are due. Each way of
/// a reset: something unread, and a descriptor that lingers for no time.
const SCRIPT: &str = "
listener = listen()
import struct
for way in ('unread', 'linger'):
    peers = [listener.accept()[0] for _ in range(12)]
    while len(select.select(peers, [], [])[0]) < 12:
        pass
    watch = select.epoll()
    for peer in peers:
        watch.register(peer, select.EPOLLIN)
    watch.poll()
    for peer in peers:
        peer.recv(10 if way == 'unread' else 100)
        peer.send(b'last words')
        if way == 'linger':
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        peer.close()
";

#[test]
fn last_words_leave_before_a_reset() {
    in_namespace(&[PYTHON], || {
        let mut keeper = Running::start(&mut python(SCRIPT, &[]));
        for way in ["unread", "linger"] {
            let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect()).collect();
            for client in &mut clients {
                client.write_all(&[b'x'; 40]).unwrap();
            }
            for mut client in clients {
                let mut got = Vec::new();
                let why = client.read_to_end(&mut got).expect_err("it is reset");
                assert_eq!((got.as_slice(), why.kind()), (&b"last words"[..], ErrorKind::ConnectionReset), "{way}");
            }
        }
        wait_for("the program's end", || keeper.has_ended());
    });
}
