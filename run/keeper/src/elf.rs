//! What an ELF file says of how it is to be started.

/// What is to be known of a program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Elf {
    /// The dynamic linker that it asks for; none: it is static.
    pub interpreter: Option<String>,
    /// It was made by Go's compiler, whose programs make system calls by themselves.
    pub is_go: bool,
    /// For 64 bits, in this machine's order of bytes.
    pub is_native: bool,
}

/// Segments that are looked at: a program has a dozen.
const MOST_SEGMENTS: usize = 128;

const PT_INTERP: u64 = 3;
const PT_NOTE: u64 = 4;

/// Reads a file; `None`: it is none of this form. What is cut short, or points beyond the file, is
/// as if it were not there.
pub(crate) fn read(file: &[u8]) -> Option<Elf> {
    if file.get(..4)? != b"\x7fELF" {
        return None;
    }
    let order = if cfg!(target_endian = "little") { 1 } else { 2 };
    let mut elf = Elf { is_native: file.get(4..6)? == [2, order], ..Elf::default() };
    if !elf.is_native {
        return Some(elf);
    }
    let (table, each, count) = (number(file, 32, 8)?, number(file, 54, 2)?, number(file, 56, 2)?);
    for segment in 0..usize::try_from(count).unwrap_or(0).min(MOST_SEGMENTS) {
        let at = table.checked_add(each.checked_mul(segment as u64)?)?;
        let Some((kind, bytes)) = usize::try_from(at).ok().and_then(|at| read_segment(file, at)) else { break };
        match kind {
            PT_INTERP => {
                let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
                elf.interpreter = Some(String::from_utf8_lossy(name).into_owned());
            }
            PT_NOTE => elf.is_go |= has_note_of_go(bytes),
            _ => {}
        }
    }
    Some(elf)
}

/// A segment's kind and content.
fn read_segment(file: &[u8], at: usize) -> Option<(u64, &[u8])> {
    let kind = number(file, at, 4)?;
    let start = usize::try_from(number(file, at.checked_add(8)?, 8)?).ok()?;
    let len = usize::try_from(number(file, at.checked_add(32)?, 8)?).ok()?;
    Some((kind, file.get(start..start.checked_add(len)?).unwrap_or_default()))
}

/// A number of so many bytes.
fn number(file: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = file.get(at..at.checked_add(len)?)?;
    let mut word = [0; 8];
    let place = if cfg!(target_endian = "little") { &mut word[..len] } else { &mut word[8 - len..] };
    place.copy_from_slice(bytes);
    Some(u64::from_ne_bytes(word))
}

/// Whether notes have one by the name of Go: its build id (cmd/link, `.note.go.buildid`).
fn has_note_of_go(mut notes: &[u8]) -> bool {
    loop {
        let (Some(name), Some(content)) = (number(notes, 0, 4), number(notes, 4, 4)) else { return false };
        let padded = |len: u64| usize::try_from(len).ok().and_then(|len| len.checked_next_multiple_of(4));
        let (Some(name_len), Some(content_len)) = (padded(name), padded(content)) else { return false };
        if notes.get(12..16) == Some(b"Go\0\0") && name == 4 {
            return true;
        }
        let next = name_len.checked_add(content_len).and_then(|len| len.checked_add(12));
        let Some(rest) = next.and_then(|next| notes.get(next..)) else { return false };
        notes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with these segments.
    fn file(segments: &[(u32, &[u8])]) -> Vec<u8> {
        let mut file = vec![0u8; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[32..40].copy_from_slice(&64u64.to_le_bytes());
        file[54..56].copy_from_slice(&56u16.to_le_bytes());
        file[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
        let mut at = 64 + 56 * segments.len() as u64;
        let mut content = Vec::new();
        for (kind, bytes) in segments {
            let mut header = [0u8; 56];
            header[..4].copy_from_slice(&kind.to_le_bytes());
            header[8..16].copy_from_slice(&at.to_le_bytes());
            header[32..40].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            file.extend_from_slice(&header);
            content.extend_from_slice(bytes);
            at += bytes.len() as u64;
        }
        file.extend_from_slice(&content);
        file
    }

    #[test]
    fn a_program_says_by_what_it_is_started() {
        let elf = read(&file(&[(1, b"code"), (3, b"/lib64/ld-linux-x86-64.so.2\0")])).unwrap();
        assert_eq!(elf.interpreter.as_deref(), Some("/lib64/ld-linux-x86-64.so.2"));
        assert!(!elf.is_go && elf.is_native);
        assert_eq!(read(&file(&[(1, b"code")])).unwrap().interpreter, None);
        assert_eq!(read(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn go_is_known_by_its_note() {
        let note = |name: &[u8], content: &[u8]| {
            let mut note = Vec::new();
            note.extend_from_slice(&(name.len() as u32).to_le_bytes());
            note.extend_from_slice(&(content.len() as u32).to_le_bytes());
            note.extend_from_slice(&4u32.to_le_bytes());
            note.extend_from_slice(name);
            note.extend_from_slice(content);
            note
        };
        let notes = [note(b"GNU\0", &[1; 16]), note(b"Go\0\0", b"an id of ")].concat();
        assert!(read(&file(&[(4, &notes)])).unwrap().is_go);
        assert!(!read(&file(&[(4, &note(b"GNU\0", &[1; 16]))])).unwrap().is_go);
    }

    /// Whatever the bytes are, there is an end to it, and nothing beyond them is read.
    #[test]
    fn files_that_are_cut_or_wrong_are_read_to_their_end() {
        let whole = file(&[(3, b"/lib/ld.so\0"), (4, &[0xff; 40])]);
        for len in 0..whole.len() {
            let _ = read(&whole[..len]);
        }
        for at in 6..whole.len() {
            let mut wrong = whole.clone();
            wrong[at] = 0xff;
            let _ = read(&wrong);
        }
    }
}
