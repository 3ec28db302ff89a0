//! Connections that another process's listener is left with, as bytes.

use posix::{INBOX, MovedConnection};
use stack::Migrant;
use tcp::Agreed;
use wire::tcp::SeqNum;

/// Bytes before the data.
const HEAD: usize = 54;

#[test]
fn a_connection_is_read_as_it_was_written() {
    for (remote, local) in [("10.0.0.1:4000", "10.0.0.2:80"), ("[fd00::1]:4000", "[fd00::2]:80")] {
        let mut agreed = Agreed::bare(SeqNum(7), SeqNum(u32::MAX), 1_460);
        for (shift, sack, timestamps) in [(None, false, None), (Some(7), true, Some(9))] {
            (agreed.peer_shift, agreed.sack, agreed.timestamps) = (shift, sack, timestamps);
            let (remote, local) = (remote.parse().unwrap(), local.parse().unwrap());
            let migrant = Migrant { remote, local, agreed, window: 64_240 };
            let moved = MovedConnection { migrant, data: b"GET / HTTP/1.1\r\n".to_vec() };
            assert_eq!(MovedConnection::from_bytes(&moved.to_bytes()), Some(moved));
        }
    }
}

#[test]
fn other_bytes_are_refused() {
    assert_eq!(MovedConnection::from_bytes(&[0; HEAD - 1]), None);
    assert_eq!(MovedConnection::from_bytes(&[0; HEAD + INBOX + 1]), None);
    assert!(MovedConnection::from_bytes(&[0; HEAD]).is_some());
    let mut mixed = [0; HEAD];
    mixed[..16].copy_from_slice(&[0xfd; 16]);
    mixed[28..30].copy_from_slice(&[0xff; 2]);
    assert_eq!(MovedConnection::from_bytes(&mixed), None, "one end of each family");
}
