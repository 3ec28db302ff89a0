//! Programs and maps in this kernel. Without the right to load programs the
//! tests say so and pass, unless `CI` or `NEARSIDE_REQUIRE_TOOLS` says that
//! they must run.

use super::*;
use crate::MapKind;
use core::sync::atomic::Ordering;

/// Whether programs may be loaded here.
fn may_load() -> bool {
    let Err(error) = Map::create("probe", MapKind::SharedArray, 4, 8, 1).map(drop).and_then(|()| run_code("exit"))
    else {
        return true;
    };
    let required = |name| std::env::var_os(name).is_some();
    assert!(!required("CI") && !required("NEARSIDE_REQUIRE_TOOLS"), "{error}; run as root");
    println!("skipped: {error}; run as root");
    false
}

fn assembly(code: &str) -> Assembly {
    Assembly::new(&format!(".type xdp\n.kernel 5.12\n.license Apache-2.0\nr0 = 0\n{code}\n"), &[]).unwrap()
}

/// What a program returns that begins with r0 = 0 and ends with `code`.
fn run_code(code: &str) -> Result<u32, Error> {
    Program::load("test", &assembly(code), &[])?.run(&[0; 64])
}

#[test]
fn the_kernel_means_what_the_text_says() {
    if !may_load() {
        return;
    }
    for (code, result) in [
        ("r0 = 7\nr0 += 5", 12),
        ("r0 = 7\nr1 = 5\nr0 -= r1", 2),
        ("r0 = 7\nr0 *= 6", 42),
        ("r0 = 43\nr0 /= 6", 7),
        ("r0 = 43\nr0 %= 6", 1),
        ("r0 = 0x0f\nr0 |= 0xf0", 0xff),
        ("r0 = 0x3c\nr0 &= 0x0f", 0x0c),
        ("r0 = 0x3c\nr0 ^= 0x0f", 0x33),
        ("r0 = 3\nr0 <<= 4", 48),
        ("r0 = -1\nr0 >>= 60", 15),
        ("r0 = -16\nr0 s>>= 2\nr0 = -r0", 4),
        ("w0 = -1\nr0 >>= 32", 0),
        ("r0 = 0x1234\nr0 = be16 r0", 0x3412),
        ("r0 = 0x12345678 ll\nr0 = be32 r0", 0x7856_3412),
        ("r0 = 0x12345678\nr0 = le16 r0", 0x5678),
        ("r0 = 0x1122334455667788 ll\nr0 >>= 32", 0x1122_3344),
        ("*(u32 *)(r10 - 4) = 9\nr0 = *(u32 *)(r10 - 4)", 9),
        ("r1 = 0x1ff\n*(u8 *)(r10 - 1) = r1\nr0 = *(u8 *)(r10 - 1)", 0xff),
        ("*(u64 *)(r10 - 8) = 5\nr1 = 4\nlock *(u64 *)(r10 - 8) += r1\nr0 = *(u64 *)(r10 - 8)", 9),
        ("*(u64 *)(r10 - 8) = 5\nr0 = 4\nr0 = atomic_fetch_add((u64 *)(r10 - 8), r0)", 5),
        ("*(u64 *)(r10 - 8) = 5\nr0 = 4\nr0 = xchg_64(r10 - 8, r0)", 5),
        ("*(u64 *)(r10 - 8) = 5\nr0 = 5\nr1 = 8\nr0 = cmpxchg_64(r10 - 8, r0, r1)\nr0 = *(u64 *)(r10 - 8)", 8),
        ("r1 = -5\nif r1 s< 3 goto less\nexit\nless: r0 = 1", 1),
        ("r1 = -5\nif r1 < 3 goto less\nexit\nless: r0 = 1", 0),
        ("w1 = -5\nif w1 s>= -5 goto out\nexit\nout: r0 = 1", 1),
        ("r1 = 6\nif r1 & 4 goto out\nexit\nout: r0 = 1", 1),
        ("r1 = 20\nagain: r0 += 2\nr1 -= 1\nif r1 != 0 goto again", 40),
        ("r1 = 4\ncall twice\nexit\ntwice: r0 = r1\nr0 += r1", 8),
    ] {
        assert_eq!(run_code(&format!("{code}\nexit")).as_ref(), Ok(&result), "{code}");
    }
}

#[test]
fn programs_and_processes_share_maps() {
    if !may_load() {
        return;
    }
    let shared = Map::create("shared", MapKind::SharedArray, 4, 64, 2).unwrap();
    let counts = Map::create("counts", MapKind::PerCpuArray, 4, 4, 3).unwrap();
    let code = "r1 = shared[0] ll\nr2 = 3\nlock *(u32 *)(r1 + 60) += r2\nr0 = *(u32 *)(r1 + 60)\nr6 = r0\n\
                *(u32 *)(r10 - 4) = 2\nr2 = r10\nr2 += -4\nr1 = counts ll\ncall bpf_map_lookup_elem\n\
                if r0 == 0 goto out\nr1 = *(u32 *)(r0 + 0)\nr1 += 1\n*(u32 *)(r0 + 0) = r1\nout: r0 = r6\nexit";
    // The address of a value is that of an array with one entry only.
    let error = Program::load("test", &assembly(code), &[&shared, &counts]).unwrap_err();
    assert!(matches!(error.cause, Cause::Rejected { .. } | Cause::System(_)), "{error}");
    let shared = Map::create("shared", MapKind::SharedArray, 4, 128, 1).unwrap();
    let program = Program::load("test", &assembly(code), &[&shared, &counts]).unwrap();
    let values = shared.share().unwrap();
    values.word(60).store(10, Ordering::Relaxed);
    assert_eq!(program.run(&[0; 64]), Ok(13));
    assert_eq!(program.run(&[0; 64]), Ok(16));
    assert_eq!(values.word(60).load(Ordering::Relaxed), 16);
    assert_eq!(values.double_word(56).load(Ordering::Relaxed) >> 32, 16);
    let per_cpu = counts.get(&2_u32.to_ne_bytes()).unwrap().unwrap();
    assert_eq!(per_cpu.len(), 8 * crate::possible_cpus());
    let sum: u32 = per_cpu.chunks(8).map(|cpu| u32::from_ne_bytes([cpu[0], cpu[1], cpu[2], cpu[3]])).sum();
    assert_eq!(sum, 2);
    counts.set(&2_u32.to_ne_bytes(), &7_u32.to_ne_bytes()).unwrap();
    assert!(counts.get(&2_u32.to_ne_bytes()).unwrap().unwrap().chunks(8).all(|cpu| cpu[0] == 7));
}

#[test]
fn maps_hold_what_they_are_given() {
    if !may_load() {
        return;
    }
    let map = Map::create("hash", MapKind::Hash, 2, 3, 1).unwrap();
    assert_eq!(map.get(b"ab"), Ok(None));
    map.set(b"ab", b"xyz").unwrap();
    assert_eq!(map.get(b"ab"), Ok(Some(b"xyz".to_vec())));
    assert_eq!(map.set(b"cd", b"xyz").unwrap_err().cause, Cause::System(Errno::TOOBIG), "one entry at most");
    assert_eq!(map.set(b"abc", b"xyz").unwrap_err().cause, Cause::Size);
    assert_eq!(map.set(b"ab", b"xy").unwrap_err().cause, Cause::Size);
    assert_eq!(map.get(b"a").unwrap_err().cause, Cause::Size);
    assert_eq!((map.remove(b"ab"), map.remove(b"ab")), (Ok(true), Ok(false)));
    assert!(map.share().is_err(), "a hash has no place in memory");
    assert_eq!(Map::create("huge", MapKind::Array, 4, 1 << 20, 1 << 20).unwrap_err().cause, Cause::Size);
    let sockets = Map::create("sockets", MapKind::ReuseportSockets, 4, 8, 2).unwrap();
    let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let error = sockets.set_socket(0, plain.as_fd()).unwrap_err();
    assert_eq!(error.cause, Cause::System(Errno::INVAL), "without SO_REUSEPORT");
}

#[test]
fn a_rejected_program_says_why_and_where() {
    if !may_load() {
        return;
    }
    // The stack ends at 512 bytes; line 6 of the text reads beyond.
    let error = run_code("r1 = 1\nr0 = *(u64 *)(r10 - 520)\nexit").unwrap_err();
    let Cause::Rejected { ref log, .. } = error.cause else { panic!("{error}") };
    assert!(log.contains("invalid read from stack") || log.contains("invalid stack"), "{log}");
    assert!(log.ends_with("line 6 of the program's text"), "{log}");
    let error = run_code("r1 = nothing ll\nexit").unwrap_err();
    assert_eq!(error.cause, Cause::UnknownMap("nothing".into()));
}

#[test]
fn without_the_capability_it_is_named() {
    if !may_load() {
        return;
    }
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let refused = || {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::SYS_ADMIN | CapabilitySet::BPF;
        set_capabilities(None, sets).unwrap();
        (Map::create("sockets", MapKind::ReuseportSockets, 4, 8, 1).unwrap_err(), run_code("exit").unwrap_err())
    };
    // Capabilities are a thread's own.
    let (map, program) = std::thread::spawn(refused).join().unwrap();
    assert_eq!(map.cause, Cause::Capability("CAP_BPF"));
    assert_eq!(program.cause, Cause::Capability("CAP_BPF and CAP_NET_ADMIN"));
}

/// A function of the kernel's is called by its number among the kernel's types,
/// by a program that is for one interface.
#[test]
fn functions_of_the_kernel_are_called_by_name() {
    const TEXT: &str = ".type xdp\n.kernel 6.3\n.license Dual MIT/GPL\n.extern bpf_xdp_metadata_rx_timestamp\n\
                        r2 = r10\nr2 += -8\n*(u64 *)(r10 - 8) = 0\ncall bpf_xdp_metadata_rx_timestamp\nr0 = 2\nexit\n";
    let assembly = Assembly::new(TEXT, &[]).unwrap();
    let told = |types: std::io::Result<Vec<u8>>| bind_calls(&mut assembly.code.clone(), &assembly, || types);
    if Version::running() >= Version::new(6, 3) {
        let none = told(Err(std::io::ErrorKind::NotFound.into())).unwrap_err();
        assert!(matches!(&none, Cause::NoTypes(_)) && none.to_string().contains("CONFIG_DEBUG_INFO_BTF"), "{none}");
        assert!(matches!(told(Ok(b"nothing of the kind".to_vec())), Err(Cause::NoTypes(_))));
    }
    assert!(matches!(has_function("bpf_xdp_no_such_function"), Err(Cause::NoTypes(_) | Cause::UnknownFunction(_))));
    if !may_load() || Version::running() < Version::new(6, 3) {
        return;
    }
    assert_eq!(has_function("bpf_xdp_metadata_rx_timestamp"), Ok(()));
    // A driver that tells nothing of frames takes no such program.
    let loopback = 1;
    let none = Program::load_bound("test", &assembly, &[], loopback).unwrap_err();
    assert_eq!(none.cause, Cause::System(Errno::NOTSUP));
    let free = Program::load("test", &assembly, &[]).unwrap_err();
    assert!(matches!(free.cause, Cause::Rejected { .. }), "for any interface: {free}");
    assert!(Program::load_bound("test", &assembly, &[], u32::MAX).is_err(), "no such interface");
    let text = TEXT.replace("bpf_xdp_metadata_rx_timestamp", "bpf_xdp_no_such_function");
    let unknown = Program::load("test", &Assembly::new(&text, &[]).unwrap(), &[]).unwrap_err();
    assert_eq!(unknown.cause, Cause::UnknownFunction("bpf_xdp_no_such_function".to_owned()));
}
