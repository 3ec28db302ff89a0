//! At random: what goes in comes out, whatever stands between.

use random::SplitMix64;

use super::*;

const NAMES: [&str; 12] = [
    ":path",
    ":status",
    "content-type",
    "cookie",
    "x-a",
    "x-b",
    "accept",
    "x-request-id",
    "",
    "authorization",
    "via",
    "x-longer-than-a-word",
];

fn value(random: &mut SplitMix64) -> Vec<u8> {
    let length = match random.below(10) {
        0 => random.below(5_000),
        1..4 => random.below(200),
        _ => random.below(30),
    };
    match random.below(4) {
        // Of few values, which come again.
        0 | 1 => format!("value-{}", random.below(6)).into_bytes(),
        2 => (0..length).map(|_| b"abcdefghijklmnop0123456789-/;= "[random.below(31)]).collect(),
        _ => (0..length).map(|_| random.bits() as u8).collect(),
    }
}

fn fields(random: &mut SplitMix64) -> Vec<(HeaderField<'static>, Vec<u8>, Indexing)> {
    (0..random.below(12))
        .map(|_| {
            let name = NAMES[random.below(NAMES.len())].as_bytes();
            let indexing = match random.below(8) {
                0 => Indexing::Never,
                1 => Indexing::Without,
                _ => Indexing::Incremental,
            };
            (HeaderField { name, value: b"", sensitive: random.below(20) == 0 }, value(random), indexing)
        })
        .collect()
}

#[test]
fn blocks_say_what_was_encoded_while_limits_change() {
    for seed in 0..300 {
        let mut random = SplitMix64::new(seed);
        let most = [0, 50, 300, 4_096, 70_000][random.below(5)];
        let mut encoder = Encoder::new(most);
        let mut decoder = Decoder::default();
        let mut scratch = Scratch::new();
        for _ in 0..60 {
            for _ in 0..random.below(8).saturating_sub(5) {
                let limit = random.below(9_000) as u32;
                decoder.set_limit(limit);
                encoder.set_limit(limit);
            }
            // What stood here before comes again where nothing was added in between.
            let fields = fields(&mut random);
            let mut out = Vec::new();
            encoder.begin(&mut out);
            for (field, value, indexing) in &fields {
                encoder.encode(HeaderField { value, ..*field }, *indexing, &mut out);
            }
            let mut seen = Vec::new();
            let decoded = decoder.decode(&out, &mut scratch, |field| {
                seen.push((field.name.to_vec(), field.value.to_vec(), field.sensitive));
                ControlFlow::Continue(())
            });
            let sent: Vec<Owned> = fields
                .iter()
                .map(|(field, value, indexing)| {
                    (field.name.to_vec(), value.clone(), field.sensitive || *indexing == Indexing::Never)
                })
                .collect();
            // Where we keep less than the limit, the encoder has said nothing of a table that it does
            // not use.
            if most == 0 && decoded == Err(Error::UpdateMissing) {
                break;
            }
            assert_eq!(seen, sent, "seed {seed}");
            let bytes: usize = sent.iter().map(|field| field.0.len() + field.1.len()).sum();
            assert_eq!(decoded, Ok(Decoded { fields: sent.len() as u32, bytes: bytes as u64, refused: false }));
        }
    }
}

#[test]
fn the_same_fields_are_the_same_bytes_until_the_table_changes() {
    let mut random = SplitMix64::new(7);
    let mut encoder = Encoder::default();
    let mut same = 0;
    for _ in 0..300 {
        let fields = fields(&mut random);
        let mut encode = |out: &mut Vec<u8>| {
            for (field, value, indexing) in &fields {
                encoder.encode(HeaderField { value, ..*field }, *indexing, out);
            }
            encoder.changes()
        };
        let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
        let before = encode(&mut first);
        encode(&mut second);
        if before == encode(&mut third) {
            assert_eq!(second, third);
            same += 1;
        }
    }
    assert!(same > 100, "{same}");
}

#[test]
fn mutated_blocks_are_decoded_or_refused_within_bounds() {
    let mut random = SplitMix64::new(3);
    let mut scratch = Scratch::new();
    for _ in 0..3_000 {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        for _ in 0..4 {
            let mut out = Vec::new();
            for (field, value, indexing) in &fields(&mut random) {
                encoder.encode(HeaderField { value, ..*field }, *indexing, &mut out);
            }
            for _ in 0..random.below(3) {
                if !out.is_empty() {
                    let at = random.below(out.len());
                    out[at] = random.bits() as u8;
                }
            }
            out.truncate(random.below(2 * out.len() + 1));
            let mut given = 0;
            let decoded = decoder.decode(&out, &mut scratch, |field| {
                given += (field.name.len() + field.value.len()) as u64;
                ControlFlow::Continue(())
            });
            assert!(decoder.table_size() <= 4_096 && decoder.memory() <= 4_096 + 128 * 6);
            match decoded {
                Ok(decoded) => assert_eq!(decoded.bytes, given),
                Err(_) => break,
            }
        }
    }
}
