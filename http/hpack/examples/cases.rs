//! Runs the cases of http2jp/hpack-test-case: `scripts/hpack-cases.sh`.
//!
//! Each file of blocks is decoded and compared with what it says; what it says is
//! encoded by us, with the table that it names, and decoded again.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use hpack::{Decoder, Encoder, HeaderField, Indexing, Scratch};
use serde_json::Value;

/// What was seen in one folder.
#[derive(Default)]
struct Seen {
    files: usize,
    blocks: usize,
    fields: usize,
    theirs: usize,
    ours: usize,
}

fn main() {
    let Some(root) = std::env::args_os().nth(1) else {
        eprintln!("cases: name the folder with hpack-test-case");
        std::process::exit(2);
    };
    let mut all = Seen::default();
    for folder in sorted(Path::new(&root)).into_iter().filter(|path| path.is_dir()) {
        let mut seen = Seen::default();
        for file in sorted(&folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "json")) {
            if let Err(why) = story(&file, &mut seen) {
                eprintln!("cases: {}: {why}", file.display());
                std::process::exit(1);
            }
        }
        if seen.files > 0 {
            print(&folder.file_name().unwrap_or_default().to_string_lossy(), &seen);
        }
        all.files += seen.files;
        all.blocks += seen.blocks;
        all.fields += seen.fields;
        all.theirs += seen.theirs;
        all.ours += seen.ours;
    }
    print("all", &all);
    if all.files == 0 {
        eprintln!("cases: there are none in {}", Path::new(&root).display());
        std::process::exit(1);
    }
}

fn print(name: &str, seen: &Seen) {
    let Seen { files, blocks, fields, theirs, ours } = seen;
    println!("{name:32} {files:4} files {blocks:6} blocks {fields:7} fields {theirs:8} bytes, ours {ours:8}");
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// The blocks of one connection.
fn story(file: &Path, seen: &mut Seen) -> Result<(), String> {
    let text = std::fs::read(file).map_err(|why| why.to_string())?;
    let story: Value = serde_json::from_slice(&text).map_err(|why| why.to_string())?;
    let cases = story["cases"].as_array().ok_or("it has no cases")?;
    let mut scratch = Scratch::new();
    let (mut theirs, mut ours, mut encoder) = (None::<Decoder>, Decoder::default(), Encoder::default());
    for (number, case) in cases.iter().enumerate() {
        let size = case["header_table_size"].as_u64().and_then(|size| u32::try_from(size).ok());
        let theirs = theirs.get_or_insert_with(|| Decoder::new(size.unwrap_or(hpack::TABLE_DEFAULT)));
        if let Some(size) = size {
            theirs.set_limit(size);
            ours.set_limit(size);
            encoder.set_limit(size);
        }
        let expected = fields(case).ok_or_else(|| format!("case {number} has no headers"))?;
        if let Some(wire) = case["wire"].as_str() {
            let block = bytes(wire).ok_or_else(|| format!("case {number} has no bytes"))?;
            seen.theirs += block.len();
            agree(theirs, &block, &mut scratch, &expected).map_err(|why| format!("case {number}: {why}"))?;
        }
        let mut block = Vec::new();
        encoder.begin(&mut block);
        for (name, value) in &expected {
            encoder.encode(HeaderField::new(name, value), Indexing::Incremental, &mut block);
        }
        seen.ours += block.len();
        agree(&mut ours, &block, &mut scratch, &expected).map_err(|why| format!("case {number}, ours: {why}"))?;
        seen.blocks += 1;
        seen.fields += expected.len();
    }
    seen.files += 1;
    Ok(())
}

type Owned = (Vec<u8>, Vec<u8>);

fn fields(case: &Value) -> Option<Vec<Owned>> {
    let pairs = case["headers"].as_array()?.iter().flat_map(|field| field.as_object().into_iter().flatten());
    pairs.map(|(name, value)| Some((name.clone().into_bytes(), value.as_str()?.as_bytes().to_vec()))).collect()
}

fn agree(decoder: &mut Decoder, block: &[u8], scratch: &mut Scratch, expected: &[Owned]) -> Result<(), String> {
    let mut fields = Vec::new();
    let decoded = decoder.decode(block, scratch, |field| {
        fields.push((field.name.to_vec(), field.value.to_vec()));
        ControlFlow::Continue(())
    });
    match decoded {
        Ok(_) if fields == expected => Ok(()),
        Ok(_) => Err("other fields".into()),
        Err(why) => Err(format!("{why:?}")),
    }
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect()
}
