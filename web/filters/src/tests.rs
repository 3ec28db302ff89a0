use super::*;
use features::{Value, Values};
use gzip::Encoders;

#[derive(Default)]
struct Nothing(SsiValues);

impl Values for Nothing {
    fn value(&mut self, _value: &Value) -> Vec<u8> {
        Vec::new()
    }
}

impl FilterValues for Nothing {
    fn named(&mut self, _name: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn second(&mut self) -> u64 {
        0
    }

    fn ssi(&mut self) -> &mut SsiValues {
        &mut self.0
    }

    fn path(&mut self) -> Vec<u8> {
        b"/folder/page.html".to_vec()
    }

    fn include(&mut self, _include: Include) -> bool {
        false
    }

    fn waits(&self) -> bool {
        false
    }
}

/// What filters make of content that comes in pieces of such a length, as they are
/// given such room; what they made of it until it was broken.
fn made(pipeline: &mut Pipeline, content: &[u8], piece: usize, most: usize) -> Result<Vec<u8>, Broken> {
    let (mut out, mut at) = (Vec::new(), 0);
    for _ in 0..1 << 20 {
        let end = content.len().min(at + piece);
        let last = end == content.len();
        let (before, mut budget) = (out.len(), 100_000);
        let ran = pipeline.run((&content[at..end], last), (&mut out, most), &mut budget, &mut Nothing::default())?;
        at += ran.taken;
        assert!(out.len() - before <= most + (32 << 10), "bounded");
        if ran.ended {
            assert_eq!(at, content.len());
            return Ok(out);
        }
    }
    panic!("it does not end");
}

fn packed(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(gzip::Whole::default().encode(Coding::Gzip, 6, text, &mut out));
    out
}

#[test]
fn pieces_do_not_matter() {
    let text: Vec<u8> = (0..200_000_u32).flat_map(|at| [b'a' + (at % 7) as u8, (at >> 9) as u8]).collect();
    let file = packed(&text);
    let mut encoders = Encoders::default();
    for (piece, most) in [(1, 1 << 20), (7, 100), (1 << 20, 1), (4_096, 4_096), (1 << 20, 1 << 20)] {
        let mut pipeline = Pipeline::default();
        pipeline.push(Filter::Gunzip(Box::default()));
        // Whatever stands between, all of it comes out.
        pipeline.push(Filter::encode(encoders.take(Coding::Zstd, 1).expect("memory"), (Coding::Zstd, 1)));
        pipeline.push(Filter::encode(encoders.take(Coding::Gzip, 3).expect("memory"), (Coding::Gzip, 3)));
        pipeline.push(Filter::Gunzip(Box::default()));
        if most < 100 && piece == 1 << 20 {
            // One byte at a time takes long.
            pipeline = Pipeline::default();
            pipeline.push(Filter::Gunzip(Box::default()));
            assert_eq!(made(&mut pipeline, &packed(&text[..5_000]), piece, most).as_deref(), Ok(&text[..5_000]));
            continue;
        }
        let out = made(&mut pipeline, &file, piece, most).expect("no break");
        assert_eq!(&out[..4], b"\x28\xb5\x2f\xfd", "zstd");
        assert_eq!(pipeline.encoded(), Some(text.len() as u64));
        pipeline.give_back(&mut encoders);
    }
}

#[test]
fn what_is_broken_is_told() {
    let file = packed(b"some text that is compressed");
    for content in [&file[..file.len() - 1], b"no gzip at all", &[&file[..], b"x"].concat()] {
        let mut pipeline = Pipeline::default();
        pipeline.push(Filter::Gunzip(Box::default()));
        assert_eq!(made(&mut pipeline, content, 5, 1_000), Err(Broken), "{content:?}");
    }
    // All that came before is passed on, by the filters behind, too; and then it is told.
    let text = [b"foo ".repeat(5_000), b"bar".to_vec()].concat();
    let long = packed(&text);
    for content in [&long[..long.len() - 4], &[&long[..], b"\0\0\0\0"].concat()] {
        for most in [100, 1 << 20] {
            let mut pipeline = Pipeline::default();
            pipeline.push(Filter::Gunzip(Box::default()));
            pipeline.push(Filter::Part { before: 1, left: u64::MAX });
            let (mut out, mut at) = (Vec::new(), 0);
            let broken = loop {
                let (before, mut budget) = (out.len(), 100_000);
                let input = (&content[at..], true);
                match pipeline.run(input, (&mut out, most), &mut budget, &mut Nothing::default()) {
                    Ok(ran) => at += ran.taken,
                    Err(broken) => break (broken, out.len() - before),
                }
            };
            assert_eq!((broken, out == text[1..]), ((Broken, 0), true), "{most}");
        }
    }
    // Members behind each other are one text.
    let mut pipeline = Pipeline::default();
    pipeline.push(Filter::Gunzip(Box::default()));
    let twice = [file.clone(), file].concat();
    assert_eq!(made(&mut pipeline, &twice, 9, 7).expect("two members").len(), 2 * 28);
}
