//! Each statement against its encoding (RFC 9669, whose tables give the
//! numbers), and every instruction through text and back.

use super::*;
use crate::insn::SIZES;
use proptest::prelude::*;

const HEAD: &str = ".type xdp\n.kernel 4.19\n.license Apache-2.0\n";

fn assemble(text: &str) -> Result<Vec<Insn>, AssembleError> {
    Assembly::new(&format!("{HEAD}{text}"), &[("SIZE", 64)]).map(|assembly| assembly.code)
}

/// Code, destination, source, offset, constant.
fn one(text: &str) -> (u8, u8, u8, i16, i32) {
    let code = assemble(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(code.len(), 1, "{text}");
    (code[0].code, code[0].dst(), code[0].src(), code[0].offset, code[0].imm)
}

#[test]
fn arithmetic_is_encoded() {
    let codes = [
        ("+=", 0x07),
        ("-=", 0x17),
        ("*=", 0x27),
        ("/=", 0x37),
        ("|=", 0x47),
        ("&=", 0x57),
        ("<<=", 0x67),
        (">>=", 0x77),
        ("%=", 0x97),
        ("^=", 0xa7),
        ("=", 0xb7),
        ("s>>=", 0xc7),
    ];
    for (sign, code) in codes {
        // RFC 9669 §4.1: source bit 8; class 7 is 64-bit, 4 is 32-bit.
        assert_eq!(one(&format!("r3 {sign} 7")), (code, 3, 0, 0, 7));
        assert_eq!(one(&format!("r3 {sign} r10")), (code | 8, 3, 10, 0, 0));
        assert_eq!(one(&format!("w3 {sign} -7")), (code - 3, 3, 0, 0, -7));
        assert_eq!(one(&format!("w3 {sign} w4")), ((code - 3) | 8, 3, 4, 0, 0));
    }
    assert_eq!(one("r1 = -r1"), (0x87, 1, 0, 0, 0));
    assert_eq!(one("w1 = -w1"), (0x84, 1, 0, 0, 0));
    // RFC 9669 §4.2.
    assert_eq!(one("r1 = le16 r1"), (0xd4, 1, 0, 0, 16));
    assert_eq!(one("r1 = be32 r1"), (0xdc, 1, 0, 0, 32));
    assert_eq!(one("r1 = be64 r1"), (0xdc, 1, 0, 0, 64));
}

#[test]
fn memory_is_encoded() {
    for (size, bits) in [("u32", 0x00), ("u16", 0x08), ("u8", 0x10), ("u64", 0x18)] {
        // RFC 9669 §5: mode MEM is 0x60.
        assert_eq!(one(&format!("r1 = *({size} *)(r2 + 4)")), (0x61 | bits, 1, 2, 4, 0));
        assert_eq!(one(&format!("*({size} *)(r2 - 4) = r1")), (0x63 | bits, 2, 1, -4, 0));
        assert_eq!(one(&format!("*({size} *)(r2) = 5")), (0x62 | bits, 2, 0, 0, 5));
    }
    assert_eq!(one("w1 = *(u32 *)(r2 + SIZE)"), (0x61, 1, 2, 64, 0));
    assert_eq!(one("*(u8 *)(r10 - SIZE) = w1"), (0x73, 10, 1, -64, 0));
}

#[test]
fn atomic_operations_are_encoded() {
    for (sign, imm) in [("+=", 0), ("|=", 0x40), ("&=", 0x50), ("^=", 0xa0)] {
        // RFC 9669 §5.3: mode ATOMIC is 0xc0.
        assert_eq!(one(&format!("lock *(u64 *)(r2 + 8) {sign} r1")), (0xdb, 2, 1, 8, imm));
        assert_eq!(one(&format!("lock *(u32 *)(r2 + 8) {sign} w1")), (0xc3, 2, 1, 8, imm));
        assert_eq!(one(&format!("lock *(u32 *)(r2 + 8) {sign} r1")), (0xc3, 2, 1, 8, imm));
    }
    for (name, imm) in [("add", 0x01), ("or", 0x41), ("and", 0x51), ("xor", 0xa1)] {
        assert_eq!(one(&format!("r1 = atomic_fetch_{name}((u64 *)(r2 + 8), r1)")), (0xdb, 2, 1, 8, imm));
        assert_eq!(one(&format!("w1 = atomic_fetch_{name}((u32 *)(r2 + 8), w1)")), (0xc3, 2, 1, 8, imm));
    }
    assert_eq!(one("r1 = xchg_64(r2 + 8, r1)"), (0xdb, 2, 1, 8, 0xe1));
    assert_eq!(one("w1 = xchg32_32(r2 + 8, w1)"), (0xc3, 2, 1, 8, 0xe1));
    assert_eq!(one("r0 = cmpxchg_64(r2 + 8, r0, r1)"), (0xdb, 2, 1, 8, 0xf1));
    assert_eq!(one("w0 = cmpxchg32_32(r2 + 8, w0, w1)"), (0xc3, 2, 1, 8, 0xf1));
}

#[test]
fn jumps_are_encoded() {
    let codes = [
        ("==", 0x15),
        (">", 0x25),
        (">=", 0x35),
        ("&", 0x45),
        ("!=", 0x55),
        ("s>", 0x65),
        ("s>=", 0x75),
        ("<", 0xa5),
        ("<=", 0xb5),
        ("s<", 0xc5),
        ("s<=", 0xd5),
    ];
    for (sign, code) in codes {
        assert_eq!(one(&format!("x: if r1 {sign} 5 goto x")), (code, 1, 0, -1, 5));
        assert_eq!(one(&format!("x: if r1 {sign} r2 goto x")), (code | 8, 1, 2, -1, 0));
        // RFC 9669 §4.3: class 6 compares 32 bits.
        assert_eq!(one(&format!("x: if w1 {sign} 5 goto x")), ((code & !7) | 6, 1, 0, -1, 5));
        assert_eq!(one(&format!("x: if w1 {sign} w2 goto x")), ((code & !7) | 6 | 8, 1, 2, -1, 0));
    }
    assert_eq!(one("x:\ngoto x"), (0x05, 0, 0, -1, 0));
    assert_eq!(one("exit"), (0x95, 0, 0, 0, 0));
    assert_eq!(one("call bpf_sk_select_reuseport"), (0x85, 0, 0, 0, 82));
    assert_eq!(one("call 14"), (0x85, 0, 0, 0, 14));
    assert_eq!(one("x: call x"), (0x85, 0, 1, 0, -1));
    let code = assemble("goto end\nr0 = 1\nend: exit\n").unwrap();
    assert_eq!(code[0].offset, 1, "counted from the next instruction");
}

#[test]
fn constants_and_maps_take_two() {
    let code = assemble("r1 = 0x1122334455667788 ll").unwrap();
    assert_eq!((code[0].code, code[0].imm, code[1].imm), (0x18, 0x5566_7788, 0x1122_3344));
    let code = assemble("r1 = -1 ll").unwrap();
    assert_eq!((code[0].imm, code[1].imm), (-1, -1));
    let text = format!("{HEAD}r1 = table ll\nr2 = other[SIZE] ll\nr3 = table ll\n");
    let assembly = Assembly::new(&text, &[("SIZE", 64)]).unwrap();
    assert_eq!(assembly.maps(), ["other", "table"]);
    assert_eq!((assembly.code[0].src(), assembly.code[2].src(), assembly.code[3].imm), (1, 2, 64));
    assert_eq!(assembly.references[1].at, 2);
    assert_eq!(assembly.lines, [4, 4, 5, 5, 6, 6]);
    assert_eq!(assembly.kernel(), Version::new(4, 19));
}

#[test]
fn mistakes_have_their_line() {
    let label = |name: &str| Mistake::Label(name.into());
    let constant = |name: &str| Mistake::Constant(name.into());
    for (text, mistake) in [
        ("r1 = $", Mistake::Token("$".into())),
        ("r1", Mistake::Statement),
        ("r1 + 1", Mistake::Statement),
        ("5", Mistake::Statement),
        ("lock r1 += 1", Mistake::Statement),
        ("r1 = *(u24 *)(r2 + 0)", Mistake::Statement),
        ("if r1 = r2 goto x", Mistake::Statement),
        ("if r1 == r2 exit", Mistake::Statement),
        ("exit 1", Mistake::Trailing),
        ("r1 = 1 2", Mistake::Trailing),
        ("r11 = 1", Mistake::Register),
        ("r01 = 1", Mistake::Register),
        ("r10 = 1", Mistake::Register),
        ("r1 = w2", Mistake::Register),
        ("w1 += r2", Mistake::Register),
        ("r1 = -r2", Mistake::Register),
        ("w1 = *(u64 *)(r2 + 0)", Mistake::Register),
        ("r1 = *(u64 *)(w2 + 0)", Mistake::Register),
        ("*(u64 *)(r2 + 0) = w1", Mistake::Register),
        ("lock *(u64 *)(r2 + 0) += w1", Mistake::Register),
        ("r1 = atomic_fetch_add((u64 *)(r2 + 0), r3)", Mistake::Register),
        ("r1 = cmpxchg_64(r2 + 0, r1, r3)", Mistake::Register),
        ("w1 = be16 w1", Mistake::Register),
        ("w1 = table ll", Mistake::Register),
        ("w1 = 5 ll", Mistake::Register),
        ("if r1 > w2 goto x", Mistake::Register),
        ("r1 = FOO", constant("FOO")),
        ("r1 = *(u8 *)(r2 + FOO)", constant("FOO")),
        ("r1 = 0x80000000", Mistake::Range),
        ("w1 = 0x100000000", Mistake::Range),
        ("r1 = *(u8 *)(r2 + 32768)", Mistake::Range),
        ("r1 = table[-1] ll", Mistake::Range),
        ("lock *(u8 *)(r2 + 0) += r1", Mistake::Range),
        ("call 0x80000000", Mistake::Range),
        ("r1 = -18446744073709551615", Mistake::Range),
        ("goto nowhere", label("nowhere")),
        ("call bpf_nothing", label("bpf_nothing")),
        ("x: r1 = 1\nr2 = 2\nx: exit", Mistake::Twice("x".into())),
        (".equ SIZE, 1", Mistake::Twice("SIZE".into())),
        (".type xdp", Mistake::Twice(".type".into())),
        (".type none", Mistake::Directive),
        (".kernel new", Mistake::Directive),
        (".section x", Mistake::Directive),
        (".equ X 1", Mistake::Directive),
    ] {
        let error = assemble(&format!("r0 = 1\n{text}")).unwrap_err();
        let line = 5 + if matches!(mistake, Mistake::Twice(ref name) if name == "x") { 2 } else { 0 };
        assert_eq!(error, AssembleError { line, mistake }, "{text}");
    }
    let lacking = |text| Assembly::new(text, &[]).unwrap_err().mistake;
    assert_eq!(lacking(""), Mistake::Missing(".type"));
    assert_eq!(lacking(".type xdp"), Mistake::Missing(".kernel"));
    assert_eq!(lacking(".type xdp\n.kernel 5.1"), Mistake::Missing(".license"));
    assert_eq!(assemble(&"exit\n".repeat(MAX_INSNS + 1)).unwrap_err().mistake, Mistake::TooLong);
    let error = assemble("r1 = FOO").unwrap_err();
    assert_eq!(error.to_string(), "line 4: no .equ defines FOO");
}

#[test]
fn the_longest_program_can_be_jumped_over() {
    let text = format!("goto end\n{}end: exit\n", "r0 = 1\n".repeat(MAX_INSNS - 2));
    assert_eq!(assemble(&text).unwrap()[0].offset as usize, MAX_INSNS - 2);
}

/// The text of any one instruction that stands alone.
fn text(insn: Insn) -> Option<String> {
    let (class_bits, high) = (insn.code & 7, insn.code & 0xf0);
    let wide = matches!(class_bits, class::ALU64 | class::JMP);
    let letter = if wide { 'r' } else { 'w' };
    let name = |number: u8| format!("{letter}{number}");
    let (dst, src) = (insn.dst(), insn.src());
    let right = if insn.code & FROM_REGISTER != 0 { name(src) } else { insn.imm.to_string() };
    let find = |table: &[(&'static str, u8)], code: u8| table.iter().find(|(_, c)| *c == code).map(|(sign, _)| *sign);
    let size = find(&SIZES, insn.code & 0x18);
    let at = |base: u8| format!("(r{base} {} {})", if insn.offset < 0 { '-' } else { '+' }, insn.offset.unsigned_abs());
    match (class_bits, high) {
        (class::ALU, alu::END) => {
            Some(format!("r{dst} = {}{} r{dst}", if insn.code & 8 == 0 { "le" } else { "be" }, insn.imm))
        }
        (class::ALU | class::ALU64, alu::NEG) => Some(format!("{0} = -{0}", name(dst))),
        (class::ALU | class::ALU64, code) => Some(format!("{} {} {right}", name(dst), find(&ASSIGN, code)?)),
        (class::JMP, jump::EXIT) => Some("exit".into()),
        (class::JMP, jump::CALL) => Some(format!("call {}", insn.imm)),
        (class::JMP, jump::ALWAYS) => Some("x: goto x".into()),
        (class::JMP | class::JMP32, code) => {
            Some(format!("x: if {} {} {right} goto x", name(dst), find(&COMPARE, code)?))
        }
        (class::LDX, _) => Some(format!("r{dst} = *({} *){}", size?, at(src))),
        (class::ST, _) => Some(format!("*({} *){} = {}", size?, at(dst), insn.imm)),
        (class::STX, _) if insn.code & 0xe0 == mode::MEM => Some(format!("*({} *){} = r{src}", size?, at(dst))),
        (class::STX, _) => {
            let sign = LOCKED.iter().find(|(_, imm)| *imm == insn.imm)?.0;
            Some(format!("lock *({} *){} {sign} r{src}", size?, at(dst)))
        }
        _ => None,
    }
}

/// Any instruction that stands alone: of every class, fields as they may be.
fn any_insn() -> impl Strategy<Value = Insn> {
    let fields = (0_u8..10, 0_u8..=10, any::<i16>(), any::<i32>());
    let alu = (0_usize..ASSIGN.len(), any::<bool>(), any::<bool>(), fields.clone()).prop_map(|(op, wide, reg, f)| {
        let code = ASSIGN[op].1 | class_of(wide) | if reg { FROM_REGISTER } else { 0 };
        if reg { Insn::new(code, f.0, f.1, 0, 0) } else { Insn::new(code, f.0, 0, 0, f.3) }
    });
    let neg = (any::<bool>(), 0_u8..10).prop_map(|(wide, dst)| Insn::new(class_of(wide) | alu::NEG, dst, 0, 0, 0));
    let end = (any::<bool>(), 0_u8..10, prop::sample::select(vec![16, 32, 64])).prop_map(|(big, dst, bits)| {
        Insn::new(class::ALU | alu::END | if big { FROM_REGISTER } else { 0 }, dst, 0, 0, bits)
    });
    let jump = (0_usize..COMPARE.len(), any::<bool>(), any::<bool>(), fields.clone()).prop_map(|(op, wide, reg, f)| {
        let code = COMPARE[op].1 | if wide { class::JMP } else { class::JMP32 } | if reg { FROM_REGISTER } else { 0 };
        if reg { Insn::new(code, f.0, f.1, -1, 0) } else { Insn::new(code, f.0, 0, -1, f.3) }
    });
    let memory = (0_usize..SIZES.len(), 0_u8..3, fields.clone()).prop_map(|(size, class, f)| {
        let code = SIZES[size].1 | mode::MEM | (class + 1);
        match class + 1 {
            class::LDX => Insn::new(code, f.0, f.1, f.2, 0),
            class::ST => Insn::new(code, f.0, 0, f.2, f.3),
            _ => Insn::new(code, f.0, f.1, f.2, 0),
        }
    });
    let locked = (0_usize..LOCKED.len(), any::<bool>(), fields).prop_map(|(op, double, f)| {
        let size = if double { DOUBLE_WORD } else { 0 };
        Insn::new(class::STX | mode::ATOMIC | size, f.0, f.1, f.2, LOCKED[op].1)
    });
    let plain = prop::sample::select(vec![
        Insn::new(class::JMP | jump::EXIT, 0, 0, 0, 0),
        Insn::new(class::JMP | jump::ALWAYS, 0, 0, -1, 0),
    ]);
    prop_oneof![alu, neg, end, jump, memory, locked, plain]
}

proptest! {
    #[test]
    fn instructions_come_back_from_their_text(insn in any_insn()) {
        let text = text(insn).expect("every instruction that is made has a text");
        let code = assemble(&text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        prop_assert_eq!(code, vec![insn], "{}", text);
    }

    #[test]
    fn no_text_panics(text in "[ -~\n]{0,200}") {
        let _ = assemble(&text);
    }

    #[test]
    fn no_tokens_panic(words in prop::collection::vec(prop::sample::select(vec![
        "r1", "w2", "r10", "=", "*", "(", "u32", "u64", ")", "+", "-", "5", "ll", "lock", "+=", "if", "goto", "x", ":",
        "call", "exit", "be16", "xchg_64", "cmpxchg_64", "atomic_fetch_add", ",", "[", "]", "table", ".equ", "SIZE",
    ]), 0..12)) {
        let _ = assemble(&words.join(" "));
    }
}
