//! The kernel's own types (BTF), as far as to find a function that programs may
//! call by its number among them.
//!
//! Source: Documentation/bpf/btf.rst, `include/uapi/linux/btf.h`.

/// Where the running kernel keeps them.
pub(crate) const KERNEL: &str = "/sys/kernel/btf/vmlinux";

/// `struct btf_header`: magic, version, flags, its length, then where types and
/// strings lie beyond it.
const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;

/// `struct btf_type`.
const TYPE: usize = 12;

/// `BTF_KIND_FUNC`.
const FUNCTION: u32 = 12;

/// The number of the function `name`.
///
/// # Errors
/// Why it cannot be told; `Ok(None)` where there is none of the name.
pub(crate) fn function(btf: &[u8], name: &str) -> Result<Option<i32>, &'static str> {
    let word = |at: usize| btf.get(at..at.checked_add(4)?)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    let magic = btf.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
    if magic != Some(MAGIC) {
        return Err("no types in this machine's order of bytes");
    }
    let field = |at: usize| word(at).map(|value| value as usize).ok_or("its header is cut off");
    let header = field(4)?;
    if header < HEADER {
        return Err("its header is too short");
    }
    let part = |at: usize| {
        let start = header.checked_add(field(at)?);
        let end = start.and_then(|start| start.checked_add(field(at + 4).ok()?));
        start.zip(end).and_then(|(start, end)| btf.get(start..end)).ok_or("a part of it lies beyond its end")
    };
    let (mut types, strings) = (part(8)?, part(16)?);
    // Number 0 is void, which is not there.
    let mut number = 0_i32;
    while !types.is_empty() {
        number = number.checked_add(1).ok_or("it has too many types")?;
        let (head, rest) = types.split_at_checked(TYPE).ok_or("its last type is cut off")?;
        let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let info = word(4);
        let kind = info >> 24 & 0x1f;
        if kind == FUNCTION && is_named(strings, word(0), name) {
            return Ok(Some(number));
        }
        let more = beyond(kind, (info & 0xffff) as usize).ok_or("it has a type of a kind that is not known")?;
        types = rest.get(more..).ok_or("its last type is cut off")?;
    }
    Ok(None)
}

/// Whether the string at an offset is this, to its end.
fn is_named(strings: &[u8], at: u32, name: &str) -> bool {
    let found = strings.get(at as usize..).and_then(|rest| rest.strip_prefix(name.as_bytes()));
    found.is_some_and(|rest| rest.first() == Some(&0))
}

/// Bytes of a type behind its head, by its kind and the number of its members.
const fn beyond(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        // Integers, variables, tags of declarations.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structures, unions, sections of data, enumerations of 64 bits.
        4 | 5 | 15 | 19 => 12 * members,
        // Enumerations, prototypes of functions.
        6 | 13 => 8 * members,
        // Pointers, forward declarations, other names, qualifiers, functions, floats, tags of types.
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Types made by hand: an integer, a structure of two members, a function.
    fn made() -> Vec<u8> {
        let strings = b"\0int\0pair\0call_me\0call";
        let mut types = Vec::new();
        let mut put = |words: &[u32]| words.iter().for_each(|word| types.extend(word.to_ne_bytes()));
        put(&[1, 1 << 24, 4, 32]);
        put(&[5, 4 << 24 | 2, 8, 1, 1, 0, 1, 1, 32]);
        put(&[10, FUNCTION << 24, 1]);
        // Its name has no end.
        put(&[18, FUNCTION << 24, 1]);
        let mut btf = MAGIC.to_ne_bytes().to_vec();
        btf.extend([1, 0]);
        for word in [HEADER, 0, types.len(), types.len(), strings.len()] {
            btf.extend((word as u32).to_ne_bytes());
        }
        [btf, types, strings.to_vec()].concat()
    }

    #[test]
    fn a_function_is_found_by_its_whole_name() {
        let btf = made();
        assert_eq!(function(&btf, "call_me"), Ok(Some(3)));
        for none in ["call_m", "call", "int", "pair", "all_me"] {
            assert_eq!(function(&btf, none), Ok(None), "{none}");
        }
        assert!(function(b"\x7fELF", "call_me").is_err());
        for cut in 0..btf.len() {
            assert!(function(&btf[..cut], "call_me").is_err(), "{cut}");
        }
        let mut odd = btf.clone();
        odd[HEADER + 7] = 31;
        assert!(function(&odd, "call_me").is_err_and(|why| why.contains("not known")));
    }

    proptest! {
        #[test]
        fn whatever_stands_there_is_read_or_refused(at in 0usize..200, with: [u8; 4]) {
            let mut btf = made();
            let at = at % (btf.len() - 3);
            btf[at..at + 4].copy_from_slice(&with);
            let _ = function(&btf, "call_me");
        }
    }

    /// Where the kernel says its types, the functions that we call are among them.
    #[test]
    fn this_kernels_functions_are_found() {
        let Ok(btf) = std::fs::read(KERNEL) else { return };
        assert!(function(&btf, "bpf_prog_run_xdp_or_none").is_ok_and(|found| found.is_none()));
        if crate::Version::running() >= crate::Version::new(6, 3) {
            assert!(function(&btf, "bpf_xdp_metadata_rx_timestamp").is_ok_and(|found| found > Some(0)));
        }
    }
}
