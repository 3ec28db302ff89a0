//! Instructions as the kernel takes them (RFC 9669 §3, `linux/bpf.h`).

/// One instruction of eight bytes: `struct bpf_insn`. A 64-bit constant takes
/// two of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Insn {
    /// What to do: class, operation and source, or class, size and mode.
    pub code: u8,
    /// The destination's register and the source's, four bits each.
    regs: u8,
    /// Signed: of a memory access in bytes, of a jump in instructions.
    pub offset: i16,
    /// Signed constant.
    pub imm: i32,
}

const _: () = assert!(size_of::<Insn>() == 8, "struct bpf_insn has 64 bits");

impl Insn {
    /// Registers are 0 to 10; only their low four bits are taken.
    #[must_use]
    pub const fn new(code: u8, dst: u8, src: u8, offset: i16, imm: i32) -> Self {
        let (dst, src) = (dst & 0xf, src & 0xf);
        // Two bit fields, the destination first: C orders them as the bytes are.
        let regs = if cfg!(target_endian = "little") { dst | src << 4 } else { dst << 4 | src };
        Self { code, regs, offset, imm }
    }

    /// The destination's register.
    #[must_use]
    pub const fn dst(self) -> u8 {
        if cfg!(target_endian = "little") { self.regs & 0xf } else { self.regs >> 4 }
    }

    /// The source's register, or a constant that says what `imm` means.
    #[must_use]
    pub const fn src(self) -> u8 {
        if cfg!(target_endian = "little") { self.regs >> 4 } else { self.regs & 0xf }
    }
}

/// Instruction classes: the low three bits of the code (RFC 9669 §3.2).
pub(crate) mod class {
    pub const LD: u8 = 0x00;
    pub const LDX: u8 = 0x01;
    pub const ST: u8 = 0x02;
    pub const STX: u8 = 0x03;
    pub const ALU: u8 = 0x04;
    pub const JMP: u8 = 0x05;
    pub const JMP32: u8 = 0x06;
    pub const ALU64: u8 = 0x07;
}

/// The operand is a register rather than `imm` (RFC 9669 §4).
pub(crate) const FROM_REGISTER: u8 = 0x08;

/// Arithmetic: the high four bits of the code (RFC 9669 §4.1).
pub(crate) mod alu {
    pub const NEG: u8 = 0x80;
    pub const MOV: u8 = 0xb0;
    pub const END: u8 = 0xd0;
}

/// Operators that assign, and their code.
pub(crate) const ASSIGN: [(&str, u8); 12] = [
    ("+=", 0x00),
    ("-=", 0x10),
    ("*=", 0x20),
    ("/=", 0x30),
    ("|=", 0x40),
    ("&=", 0x50),
    ("<<=", 0x60),
    (">>=", 0x70),
    ("%=", 0x90),
    ("^=", 0xa0),
    ("=", alu::MOV),
    ("s>>=", 0xc0),
];

/// Jumps: the high four bits of the code (RFC 9669 §4.3).
pub(crate) mod jump {
    pub const ALWAYS: u8 = 0x00;
    pub const CALL: u8 = 0x80;
    pub const EXIT: u8 = 0x90;
}

/// Comparisons of conditional jumps, and their code.
pub(crate) const COMPARE: [(&str, u8); 11] = [
    ("==", 0x10),
    (">", 0x20),
    (">=", 0x30),
    ("&", 0x40),
    ("!=", 0x50),
    ("s>", 0x60),
    ("s>=", 0x70),
    ("<", 0xa0),
    ("<=", 0xb0),
    ("s<", 0xc0),
    ("s<=", 0xd0),
];

/// Sizes of memory accesses (RFC 9669 §5).
pub(crate) const SIZES: [(&str, u8); 4] = [("u32", 0x00), ("u16", 0x08), ("u8", 0x10), ("u64", 0x18)];

/// Modes of memory accesses (RFC 9669 §5).
pub(crate) mod mode {
    pub const IMM: u8 = 0x00;
    pub const MEM: u8 = 0x60;
    pub const ATOMIC: u8 = 0xc0;
}

/// A 64-bit access or constant.
pub(crate) const DOUBLE_WORD: u8 = 0x18;

/// Atomic operations, in `imm` (RFC 9669 §5.3).
pub(crate) mod atomic {
    pub const FETCH: i32 = 0x01;
    pub const EXCHANGE: i32 = 0xe0 | FETCH;
    pub const COMPARE_EXCHANGE: i32 = 0xf0 | FETCH;
}

/// Operators after `lock`, and their code.
pub(crate) const LOCKED: [(&str, i32); 4] = [("+=", 0x00), ("|=", 0x40), ("&=", 0x50), ("^=", 0xa0)];

/// Atomic operations that yield the value before, and their code.
pub(crate) const FETCHED: [(&str, i32); 4] = [
    ("atomic_fetch_add", atomic::FETCH),
    ("atomic_fetch_or", 0x40 | atomic::FETCH),
    ("atomic_fetch_and", 0x50 | atomic::FETCH),
    ("atomic_fetch_xor", 0xa0 | atomic::FETCH),
];

/// What the source of a 64-bit constant or a call says of `imm`
/// (RFC 9669 §5.4, §4.3.1).
pub(crate) mod pseudo {
    pub const MAP: u8 = 1;
    pub const MAP_VALUE: u8 = 2;
    pub const CALL: u8 = 1;
    /// Of the kernel, by its number among the kernel's types (`BPF_PSEUDO_KFUNC_CALL`).
    pub const KERNEL_CALL: u8 = 2;
}

/// Kernel functions that programs may call by name, and their numbers
/// (`___BPF_FUNC_MAPPER` in `linux/bpf.h`). Others can be called by number.
pub(crate) const FUNCTIONS: [(&str, i32); 13] = [
    ("bpf_map_lookup_elem", 1),
    ("bpf_map_update_elem", 2),
    ("bpf_map_delete_elem", 3),
    ("bpf_ktime_get_ns", 5),
    ("bpf_get_prandom_u32", 7),
    ("bpf_get_smp_processor_id", 8),
    ("bpf_skb_load_bytes", 26),
    ("bpf_get_numa_node_id", 42),
    ("bpf_xdp_adjust_head", 44),
    ("bpf_redirect_map", 51),
    ("bpf_xdp_adjust_meta", 54),
    ("bpf_skb_load_bytes_relative", 68),
    ("bpf_sk_select_reuseport", 82),
];
