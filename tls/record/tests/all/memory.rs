//! What the process's memory holds of keys: all of it while the connection lives, and
//! nothing once it has ended.

use crate::support::End;
use record::{
    Afterwards, Established, KeyedWay, RecordCipher, RecordKeys, RecordLayer, TlsSide, TlsVersion, TrafficSecret,
};
use seal::ContentType::ApplicationData;
use std::fs::{File, read_to_string};
use std::hint::black_box;
use std::os::unix::fs::FileExt;

/// What this test keeps is kept so that it does not find it.
const MASK: u8 = 0xa5;

/// A process of its own looks: other tests make keys meanwhile.
#[test]
fn nothing_of_a_key_is_left_behind() {
    const ALONE: &str = "RECORD_MEMORY_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let program = std::env::current_exe().expect("this program");
        let mut look = std::process::Command::new(program);
        look.args(["--exact", "memory::nothing_of_a_key_is_left_behind", "--test-threads=1"]).env(ALONE, "1");
        let out = look.output().expect("it ran");
        return assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    }
    let mut memory = Memory::open();
    for cipher in [RecordCipher::Aes128Gcm, RecordCipher::Aes256Gcm, RecordCipher::ChaCha20Poly1305] {
        let mut connection = connect(cipher);
        work(&mut connection);
        let mut looked = known(cipher);
        let found = memory.count(&looked);
        for (what, found) in looked.iter().zip(found) {
            assert!(found > 0, "{cipher:?}: a live connection has its {}", what.name);
        }
        let made = memory.made_of(&looked[0]);
        // Round keys and the powers of GHASH's key, of both directions.
        let least = if cipher == RecordCipher::ChaCha20Poly1305 { 0 } else { 18 };
        assert!(made.len() >= least, "{cipher:?}: {} pieces were computed of a key", made.len());
        looked.extend(made);
        drop(connection);
        for (what, found) in looked.iter().zip(memory.count(&looked)) {
            assert_eq!(found, 0, "{cipher:?}: the {} of a connection that has ended", what.name);
        }
    }
}

/// Sixteen bytes that are looked for.
struct Piece {
    name: &'static str,
    masked: [u8; 16],
}

/// What no memory holds but by us: told apart by `seed`.
const fn byte(seed: u8, at: u8) -> u8 {
    (at ^ seed).wrapping_mul(151).rotate_left(3) ^ seed.wrapping_mul(89) ^ at.wrapping_mul(37)
}

const KEYS: [u8; 2] = [11, 12];
const SECRETS: [u8; 2] = [13, 14];

fn known(cipher: RecordCipher) -> Vec<Piece> {
    let own = cipher as u8 * 16;
    let piece = |name, seed: u8| Piece { name, masked: core::array::from_fn(|at| byte(seed + own, at as u8) ^ MASK) };
    let keys = KEYS.map(|seed| piece("key", seed));
    keys.into_iter().chain(SECRETS.map(|seed| piece("traffic secret", seed))).collect()
}

#[inline(never)]
fn connect(cipher: RecordCipher) -> Box<End> {
    let own = cipher as u8 * 16;
    let way = |seed: u8| {
        let key: Vec<u8> = (0..cipher.key_len()).map(|at| byte(seed + own, at as u8)).collect();
        let keys = RecordKeys::new(cipher, &key, [seed; 12]).expect("keys");
        forget(key);
        KeyedWay { keys, number: 0 }
    };
    let secret = |seed: u8| {
        let bytes: Vec<u8> = (0..cipher.secret_len()).map(|at| byte(seed + own, at as u8)).collect();
        let secret = TrafficSecret::new(cipher, &bytes).expect("a secret");
        forget(bytes);
        secret
    };
    // As data paths have it: it does not move, and leaves no copies where it was.
    Box::new(End::new(RecordLayer::new(Established {
        version: TlsVersion::V13,
        side: TlsSide::Server,
        sends: way(KEYS[0]),
        receives: way(KEYS[1]),
        afterwards: Afterwards::Secrets { sends: secret(SECRETS[0]), receives: secret(SECRETS[1]) },
        most: seal::MAX_PLAINTEXT,
    })))
}

fn forget(mut bytes: Vec<u8>) {
    bytes.fill(0);
    black_box(&bytes);
}

#[inline(never)]
fn work(connection: &mut End) {
    for len in [10, 5_000] {
        black_box(connection.seal(ApplicationData, &vec![7; len]));
    }
    // It cannot be opened: the key is made ready for that all the same.
    let mut record = vec![23, 3, 3, 0, 100];
    record.resize(105, 1);
    black_box(connection.open(&record));
}

/// This process's.
struct Memory {
    file: File,
    /// Where it is read to: what stands there is not counted.
    buffer: Vec<u8>,
}

/// Bytes that are read at once, and those that are read again with the next, for pieces
/// on the border.
const BUFFER: usize = 1 << 20;
const AGAIN: usize = 15;

impl Memory {
    fn open() -> Self {
        Self { file: File::open("/proc/self/mem").expect("our memory"), buffer: vec![0; BUFFER] }
    }

    fn count(&mut self, pieces: &[Piece]) -> Vec<usize> {
        let mut found = vec![0; pieces.len()];
        self.each(pieces, |piece, _| found[piece] += 1);
        found
    }

    /// What stands behind a key where it was made ready: sixteen bytes each that look like
    /// nothing else.
    fn made_of(&mut self, key: &Piece) -> Vec<Piece> {
        let mut places = Vec::new();
        self.each(core::slice::from_ref(key), |_, address| places.push(address));
        let mut made = Vec::new();
        for address in places {
            let mut area = [0; 512];
            let read = self.file.read_at(&mut area, address + 16).is_ok();
            area.iter_mut().for_each(|byte| *byte ^= MASK);
            // Ten round keys: elsewhere the key stands alone.
            if read && area.chunks_exact(16).take(10).all(is_random) {
                made.extend(area.chunks_exact(16).filter(|chunk| is_random(chunk)).map(|chunk| Piece {
                    name: "piece computed of a key",
                    masked: chunk.try_into().expect("sixteen bytes"),
                }));
            }
        }
        made
    }

    fn each(&mut self, pieces: &[Piece], mut found: impl FnMut(usize, u64)) {
        let Self { file, buffer } = self;
        let own = buffer.as_ptr().addr() as u64..buffer.as_ptr().addr() as u64 + BUFFER as u64;
        let mut begins = vec![false; 1 << 16];
        for Piece { masked, .. } in pieces {
            begins[usize::from(u16::from_le_bytes([masked[0] ^ MASK, masked[1] ^ MASK]))] = true;
        }
        let maps = read_to_string("/proc/self/maps").expect("our memory's map");
        for line in maps.lines().filter(|line| line.contains(" rw")) {
            let (range, _) = line.split_once(' ').expect("a range");
            let (from, to) = range.split_once('-').expect("two ends");
            let [mut at, to] = [from, to].map(|text| u64::from_str_radix(text, 16).expect("an address"));
            while at < to {
                let len = (to - at).min(BUFFER as u64) as usize;
                let Ok(read) = file.read_at(&mut buffer[..len], at) else { break };
                let bytes = &buffer[..read];
                for (offset, window) in bytes.windows(16).enumerate() {
                    let address = at + offset as u64;
                    if begins[usize::from(u16::from_le_bytes([window[0], window[1]]))] && !own.contains(&address) {
                        let same = |piece: &Piece| piece.masked.iter().zip(window).all(|(a, b)| *a ^ MASK == *b);
                        if let Some(piece) = pieces.iter().position(same) {
                            found(piece, address);
                        }
                    }
                }
                at += (read.saturating_sub(AGAIN)).max(1) as u64;
                if read < 16 {
                    break;
                }
            }
        }
    }
}

fn is_random(chunk: &[u8]) -> bool {
    let mut sorted = chunk.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.len() >= 13
}
