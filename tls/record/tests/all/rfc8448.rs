//! The records of RFC 8448 section 3, "Simple 1-RTT Handshake", after the handshake.

use crate::support::{End, hex};
use record::{
    Afterwards, Established, KeyedWay, RecordCipher, RecordKeys, RecordLayer, TlsSide, TlsVersion, TrafficSecret,
};
use seal::ContentType::{Alert, ApplicationData};
use seal::Unsealed;

const CLIENT_SECRET: &str = "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5";
const SERVER_SECRET: &str = "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643";
const CLIENT_KEY: (&str, &str) = ("17422dda596ed5d9acd890e3c63f5051", "5b78923dee08579033e523d9");
const SERVER_KEY: (&str, &str) = ("9f02283b6c9c07efc26bb9f2ac92e356", "cf782b88dd83549aadf1e984");

const CLIENT_DATA: &str = "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a\
                           20441e2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4";
const SERVER_DATA: &str = "17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d90e6dffc602dcb\
                           501a59a8fcc49c4bf2e5f0a21c0047c2abf332540dd032e167c2955d";
const CLIENT_ALERT: &str = "1703030013c9872760655666b74d7ff1153efd6db6d0b0e3";
const SERVER_ALERT: &str = "1703030013b58fd67166ebf599d24720cfbe7efa7a8864a9";

const CLOSE_NOTIFY: [u8; 2] = [1, 0];

/// The server has sent a ticket before its data.
const SERVER_FIRST: u64 = 1;

fn way(secret: &str, number: u64) -> KeyedWay {
    let secret = TrafficSecret::new(RecordCipher::Aes128Gcm, &hex(secret)).expect("a secret");
    KeyedWay { keys: secret.keys().expect("keys"), number }
}

fn end(side: TlsSide) -> End {
    let (client, server) = (way(CLIENT_SECRET, 0), way(SERVER_SECRET, SERVER_FIRST));
    let (sends, receives) = if side == TlsSide::Client { (client, server) } else { (server, client) };
    let (version, afterwards, most) = (TlsVersion::V13, Afterwards::Nothing, seal::MAX_PLAINTEXT);
    End::new(RecordLayer::new(Established { version, side, sends, receives, afterwards, most }))
}

#[test]
fn records_are_sealed_to_the_same_bytes() {
    let text: Vec<u8> = (0..50).collect();
    let mut client = end(TlsSide::Client);
    assert_eq!(client.seal(ApplicationData, &text), hex(CLIENT_DATA));
    assert_eq!(client.seal(Alert, &CLOSE_NOTIFY), hex(CLIENT_ALERT));
    let mut server = end(TlsSide::Server);
    assert_eq!(server.seal(ApplicationData, &text), hex(SERVER_DATA));
    assert_eq!(server.seal(Alert, &CLOSE_NOTIFY), hex(SERVER_ALERT));
}

#[test]
fn records_are_opened() {
    let text: Vec<u8> = (0..50).collect();
    let sides = [(TlsSide::Server, CLIENT_DATA, CLIENT_ALERT), (TlsSide::Client, SERVER_DATA, SERVER_ALERT)];
    for (side, data, alert) in sides {
        let mut end = end(side);
        assert_eq!(end.data(&hex(data)), text);
        assert_eq!(end.open(&hex(alert)), (Unsealed::End { consumed: 24 }, vec![]));
    }
}

#[test]
fn keys_come_of_secrets() {
    // That they are the published ones is seen by what they seal.
    for ((key, iv), data, number) in [(CLIENT_KEY, CLIENT_DATA, 0), (SERVER_KEY, SERVER_DATA, SERVER_FIRST)] {
        let iv = hex(iv).try_into().expect("twelve bytes");
        let keys = || RecordKeys::new(RecordCipher::Aes128Gcm, &hex(key), iv).expect("keys");
        let mut end = End::new(RecordLayer::new(Established {
            version: TlsVersion::V13,
            side: TlsSide::Server,
            sends: KeyedWay { keys: keys(), number },
            receives: KeyedWay { keys: keys(), number },
            afterwards: Afterwards::Nothing,
            most: seal::MAX_PLAINTEXT,
        }));
        let text: Vec<u8> = (0..50).collect();
        assert_eq!(end.seal(ApplicationData, &text), hex(data));
    }
}
