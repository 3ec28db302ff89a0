//! From assembly text to instructions.
//!
//! The notation is that of the kernel and of LLVM (`llvm-mc -arch=bpf`), one
//! statement a line, instruction set version 3:
//!
//! ```text
//! .type sk_reuseport            # the program's type, by the kernel's name
//! .kernel 4.19                  # the oldest kernel that takes it
//! .license Apache-2.0
//! .equ LIMIT, 256               # a constant
//! .extern bpf_xdp_metadata_rx_hash   # a function of the kernel without a fixed number
//! start:                        # a label
//!     r1 = LIMIT                # r: 64 bits, w: the lower 32, the upper cleared
//!     r1 += r2                  # += -= *= /= %= |= &= ^= <<= >>= s>>=
//!     r1 = -r1
//!     r1 = be16 r1              # be16 be32 be64 le16 le32 le64
//!     r1 = 0x123456789 ll       # a 64-bit constant
//!     r1 = table ll             # the map with this name
//!     r1 = table[16] ll         # the address of byte 16 of its only value
//!     r1 = *(u32 *)(r2 + 4)     # u8 u16 u32 u64
//!     *(u32 *)(r2 + 4) = r1     # or a constant
//!     lock *(u64 *)(r2 + 0) += r1            # += |= &= ^=
//!     r1 = atomic_fetch_add((u64 *)(r2 + 0), r1)
//!     r1 = xchg_64(r2 + 0, r1)               # and xchg32_32 with w1
//!     r0 = cmpxchg_64(r2 + 0, r0, r1)        # and cmpxchg32_32 with w0, w1
//!     if r1 s> 5 goto start     # == != > >= < <= & s> s>= s< s<=
//!     goto start
//!     call bpf_map_lookup_elem  # a function of the kernel, by name or number
//!     call start                # a function of this program, or an .extern
//!     exit
//! ```

mod operand;

use crate::insn::{
    ASSIGN, COMPARE, DOUBLE_WORD, FETCHED, FROM_REGISTER, FUNCTIONS, Insn, LOCKED, alu, atomic, class, jump, mode,
    pseudo,
};
use crate::lex::{Token, tokens};
use crate::{ProgramType, Version};
use core::fmt;
use operand::{
    Cursor, Operand, Register, atomic_size, byte_order, cast, class_of, immediate, lookup, register, same_width,
};
use std::collections::HashMap;

/// The most instructions of a program: more than an unprivileged one may have
/// (BPF_MAXINSNS), far below what would take long to verify.
pub const MAX_INSNS: usize = 4_096;

const _: () = assert!(MAX_INSNS <= i16::MAX as usize, "a jump reaches every label");

/// A program's text made into instructions, not yet bound to maps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assembly {
    pub(crate) code: Vec<Insn>,
    pub(crate) references: Vec<Reference>,
    /// Calls of functions of the kernel that have no fixed number.
    pub(crate) kernel_calls: Vec<(usize, String)>,
    /// The line of each instruction.
    pub(crate) lines: Vec<usize>,
    pub(crate) kind: ProgramType,
    pub(crate) kernel: Version,
    pub(crate) license: String,
}

/// An instruction that loads the address of a map, or of its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reference {
    pub at: usize,
    pub map: String,
}

impl Assembly {
    /// Assembles `text`. `constants` stand beside those of the text, so that
    /// a layout shared with Rust has one definition.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn new(text: &str, constants: &[(&str, i64)]) -> Result<Self, AssembleError> {
        let mut assembler = Assembler::new(constants);
        for (index, line) in text.lines().enumerate() {
            assembler.line = index + 1;
            assembler.take_line(line).map_err(|mistake| AssembleError { line: index + 1, mistake })?;
        }
        assembler.finish()
    }

    /// The instructions, their references to maps still open.
    #[must_use]
    pub fn code(&self) -> &[Insn] {
        &self.code
    }

    /// The oldest kernel that takes the program.
    #[must_use]
    pub const fn kernel(&self) -> Version {
        self.kernel
    }

    /// The names of the maps that the program uses, each once.
    #[must_use]
    pub fn maps(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.references.iter().map(|reference| reference.map.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// A mistake in a program's text: the author's to mend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AssembleError {
    /// Counted from 1; after the last one for what the text lacks.
    pub line: usize,
    /// What is wrong.
    pub mistake: Mistake,
}

/// What can be wrong with a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// Not a token.
    Token(String),
    /// Not a statement.
    Statement,
    /// Something is left after the statement.
    Trailing,
    /// A register that is none, is of the wrong width, or cannot be written.
    Register,
    /// A word that no `.equ` defines.
    Constant(String),
    /// A constant or offset too wide for its field.
    Range,
    /// A jump or call to a label that is not there.
    Label(String),
    /// A name given twice.
    Twice(String),
    /// A directive that is not known, or not complete.
    Directive,
    /// `.type`, `.kernel` or `.license` is missing.
    Missing(&'static str),
    /// More than [`MAX_INSNS`] instructions.
    TooLong,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(text) => write!(f, "cannot read '{text}'"),
            Self::Statement => f.write_str("not a statement of BPF assembly"),
            Self::Trailing => f.write_str("more follows than the statement takes"),
            Self::Register => f.write_str("write a register, r0 to r10 or w0 to w10, of the statement's width"),
            Self::Constant(name) => write!(f, "no .equ defines {name}"),
            Self::Range => f.write_str("the constant does not fit its field"),
            Self::Label(name) => write!(f, "no label {name}"),
            Self::Twice(name) => write!(f, "{name} is defined twice"),
            Self::Directive => {
                f.write_str("write .type NAME, .kernel X.Y, .license TEXT, .equ NAME, VALUE or .extern NAME")
            }
            Self::Missing(name) => write!(f, "the program lacks {name}"),
            Self::TooLong => write!(f, "more than {MAX_INSNS} instructions"),
        }
    }
}

impl fmt::Display for AssembleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.mistake)
    }
}

impl core::error::Error for AssembleError {}

#[derive(Default)]
struct Assembler {
    line: usize,
    code: Vec<Insn>,
    lines: Vec<usize>,
    references: Vec<Reference>,
    /// Functions of the kernel that the text names, and their calls.
    functions: Vec<String>,
    kernel_calls: Vec<(usize, String)>,
    constants: HashMap<String, i64>,
    labels: HashMap<String, usize>,
    /// Instructions that lead to a label.
    jumps: Vec<(usize, String)>,
    kind: Option<ProgramType>,
    kernel: Option<Version>,
    license: Option<String>,
}

impl Assembler {
    fn new(constants: &[(&str, i64)]) -> Self {
        let constants = constants.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Self { constants, ..Self::default() }
    }

    fn take_line(&mut self, line: &str) -> Result<(), Mistake> {
        if line.trim_start().starts_with('.') {
            return self.directive(line);
        }
        let tokens = tokens(line).map_err(|text| Mistake::Token(text.to_owned()))?;
        let mut rest = Cursor { tokens: &tokens };
        if let [Token::Word(label), Token::Sign(":"), ..] = tokens.as_slice() {
            rest.tokens = &tokens[2..];
            if register(label).is_some() || self.labels.insert((*label).to_owned(), self.code.len()).is_some() {
                return Err(Mistake::Twice((*label).to_owned()));
            }
        }
        if !rest.tokens.is_empty() {
            self.statement(&mut rest)?;
            rest.end()?;
        }
        if self.code.len() > MAX_INSNS { Err(Mistake::TooLong) } else { Ok(()) }
    }

    fn directive(&mut self, line: &str) -> Result<(), Mistake> {
        let text = line.split('#').next().unwrap_or_default().trim();
        let (name, value) = text.split_once(' ').ok_or(Mistake::Directive)?;
        let value = value.trim();
        let again = match name {
            ".type" => self.kind.replace(ProgramType::named(value).ok_or(Mistake::Directive)?).is_some(),
            ".kernel" => self.kernel.replace(value.parse().map_err(|_| Mistake::Directive)?).is_some(),
            ".license" => self.license.replace(value.to_owned()).is_some(),
            ".extern" => {
                let again = self.functions.iter().any(|known| known == value);
                self.functions.push(value.to_owned());
                return if again { Err(Mistake::Twice(value.to_owned())) } else { Ok(()) };
            }
            ".equ" => {
                let tokens = tokens(value).map_err(|text| Mistake::Token(text.to_owned()))?;
                let mut rest = Cursor { tokens: &tokens };
                let name = rest.any_word().map_err(|_| Mistake::Directive)?;
                rest.expect(",").map_err(|_| Mistake::Directive)?;
                let value = self.constant(&mut rest)?;
                rest.end()?;
                return match self.constants.insert(name.to_owned(), value) {
                    Some(_) => Err(Mistake::Twice(name.to_owned())),
                    None => Ok(()),
                };
            }
            _ => return Err(Mistake::Directive),
        };
        if again { Err(Mistake::Twice(name.to_owned())) } else { Ok(()) }
    }

    fn statement(&mut self, rest: &mut Cursor<'_>) -> Result<(), Mistake> {
        match rest.peek() {
            Some(Token::Word("exit")) => {
                rest.next();
                self.push(Insn::new(class::JMP | jump::EXIT, 0, 0, 0, 0));
                Ok(())
            }
            Some(Token::Word("goto")) => self.jump(rest, Insn::new(class::JMP | jump::ALWAYS, 0, 0, 0, 0)),
            Some(Token::Word("if")) => self.branch(rest),
            Some(Token::Word("call")) => self.call(rest),
            Some(Token::Word("lock")) => self.locked(rest),
            Some(Token::Sign("*")) => self.store(rest),
            Some(Token::Word(_)) => self.assignment(rest),
            _ => Err(Mistake::Statement),
        }
    }

    /// `goto LABEL` as the rest of `insn`.
    fn jump(&mut self, rest: &mut Cursor<'_>, insn: Insn) -> Result<(), Mistake> {
        if !rest.word("goto") {
            return Err(Mistake::Statement);
        }
        self.jumps.push((self.code.len(), rest.any_word()?.to_owned()));
        self.push(insn);
        Ok(())
    }

    fn branch(&mut self, rest: &mut Cursor<'_>) -> Result<(), Mistake> {
        rest.next();
        let left = rest.register()?;
        let code = rest.operator(&COMPARE)? | if left.wide { class::JMP } else { class::JMP32 };
        let insn = match self.operand(rest)? {
            Operand::Register(right) => {
                same_width(left, right)?;
                Insn::new(code | FROM_REGISTER, left.number, right.number, 0, 0)
            }
            Operand::Constant(value) => Insn::new(code, left.number, 0, 0, immediate(value, left.wide)?),
        };
        self.jump(rest, insn)
    }

    fn call(&mut self, rest: &mut Cursor<'_>) -> Result<(), Mistake> {
        rest.next();
        let code = class::JMP | jump::CALL;
        match rest.next() {
            Some(Token::Number(number)) => {
                let number = i32::try_from(number).map_err(|_| Mistake::Range)?;
                self.push(Insn::new(code, 0, 0, 0, number));
            }
            Some(Token::Word(name)) => match lookup(&FUNCTIONS, name) {
                Some(number) => self.push(Insn::new(code, 0, 0, 0, number)),
                None if self.functions.iter().any(|known| known == name) => {
                    self.kernel_calls.push((self.code.len(), name.to_owned()));
                    self.push(Insn::new(code, 0, pseudo::KERNEL_CALL, 0, 0));
                }
                None => {
                    self.jumps.push((self.code.len(), name.to_owned()));
                    self.push(Insn::new(code, 0, pseudo::CALL, 0, 0));
                }
            },
            _ => return Err(Mistake::Statement),
        }
        Ok(())
    }

    /// `lock *(SIZE *)(rN + OFFSET) OP REGISTER`.
    fn locked(&mut self, rest: &mut Cursor<'_>) -> Result<(), Mistake> {
        rest.next();
        rest.expect("*")?;
        let size = atomic_size(cast(rest)?)?;
        rest.expect("(")?;
        let (base, offset) = self.address(rest)?;
        rest.expect(")")?;
        let operation = rest.operator(&LOCKED)?;
        let value = rest.register()?;
        // A 32-bit value may be written either way: LLVM does both.
        if size == DOUBLE_WORD && !value.wide {
            return Err(Mistake::Register);
        }
        self.push(Insn::new(class::STX | mode::ATOMIC | size, base, value.number, offset, operation));
        Ok(())
    }

    /// `*(SIZE *)(rN + OFFSET) = VALUE`.
    fn store(&mut self, rest: &mut Cursor<'_>) -> Result<(), Mistake> {
        rest.next();
        let size = cast(rest)?;
        rest.expect("(")?;
        let (base, offset) = self.address(rest)?;
        rest.expect(")")?;
        rest.expect("=")?;
        let insn = match self.operand(rest)? {
            Operand::Register(value) if size != DOUBLE_WORD || value.wide => {
                Insn::new(class::STX | mode::MEM | size, base, value.number, offset, 0)
            }
            Operand::Register(_) => return Err(Mistake::Register),
            Operand::Constant(value) => {
                Insn::new(class::ST | mode::MEM | size, base, 0, offset, immediate(value, size == DOUBLE_WORD)?)
            }
        };
        self.push(insn);
        Ok(())
    }

    /// Everything that begins with the register to be changed.
    fn assignment(&mut self, rest: &mut Cursor<'_>) -> Result<(), Mistake> {
        let to = rest.register()?;
        // The frame pointer is read-only (RFC 9669 §2).
        if to.number == 10 {
            return Err(Mistake::Register);
        }
        let operation = rest.operator(&ASSIGN)?;
        if operation == alu::MOV
            && let Some(first) = rest.peek()
            && self.special(rest, to, first)?
        {
            return Ok(());
        }
        let code = class_of(to.wide) | operation;
        let insn = match self.operand(rest)? {
            Operand::Register(from) => {
                same_width(to, from)?;
                Insn::new(code | FROM_REGISTER, to.number, from.number, 0, 0)
            }
            Operand::Constant(value) if operation == alu::MOV && rest.word("ll") => {
                return self.long(to, value);
            }
            Operand::Constant(value) => Insn::new(code, to.number, 0, 0, immediate(value, to.wide)?),
        };
        self.push(insn);
        Ok(())
    }

    /// What `rN =` may begin with that is no operand; returns whether it was.
    fn special(&mut self, rest: &mut Cursor<'_>, to: Register, first: Token<'_>) -> Result<bool, Mistake> {
        let before = rest.tokens;
        match first {
            Token::Sign("*") => self.load(rest, to)?,
            Token::Sign("-") => {
                rest.next();
                if !matches!(rest.peek(), Some(Token::Word(word)) if register(word).is_some()) {
                    // A constant below zero.
                    rest.tokens = before;
                    return Ok(false);
                }
                if rest.register()? != to {
                    return Err(Mistake::Register);
                }
                self.push(Insn::new(class_of(to.wide) | alu::NEG, to.number, 0, 0, 0));
            }
            Token::Word(word) if byte_order(word).is_some() => {
                rest.next();
                let (order, bits) = byte_order(word).unwrap_or_default();
                if !to.wide || rest.register()? != to {
                    return Err(Mistake::Register);
                }
                self.push(Insn::new(class::ALU | alu::END | order, to.number, 0, 0, bits));
            }
            Token::Word(word) if lookup(&FETCHED, word).is_some() => self.fetch(rest, to)?,
            Token::Word("xchg_64" | "xchg32_32" | "cmpxchg_64" | "cmpxchg32_32") => self.exchange(rest, to)?,
            Token::Word(name) if register(name).is_none() && !self.constants.contains_key(name) => {
                rest.next();
                return self.map(rest, to, name).map(|()| true);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `rN = *(SIZE *)(rM + OFFSET)`.
    fn load(&mut self, rest: &mut Cursor<'_>, to: Register) -> Result<(), Mistake> {
        rest.next();
        let size = cast(rest)?;
        // `w` may be written where the load clears the upper half anyway.
        if size == DOUBLE_WORD && !to.wide {
            return Err(Mistake::Register);
        }
        rest.expect("(")?;
        let (base, offset) = self.address(rest)?;
        rest.expect(")")?;
        self.push(Insn::new(class::LDX | mode::MEM | size, to.number, base, offset, 0));
        Ok(())
    }

    /// `rN = atomic_fetch_add((SIZE *)(rM + OFFSET), rN)`.
    fn fetch(&mut self, rest: &mut Cursor<'_>, to: Register) -> Result<(), Mistake> {
        let operation = lookup(&FETCHED, rest.any_word()?).ok_or(Mistake::Statement)?;
        rest.expect("(")?;
        let size = atomic_size(cast(rest)?)?;
        rest.expect("(")?;
        let (base, offset) = self.address(rest)?;
        rest.expect(")")?;
        rest.expect(",")?;
        self.atomic(rest, to, size, (base, offset, operation))
    }

    /// `rN = xchg_64(rM + OFFSET, rN)` and its like.
    fn exchange(&mut self, rest: &mut Cursor<'_>, to: Register) -> Result<(), Mistake> {
        let name = rest.any_word()?;
        let size = if name.ends_with("_64") { DOUBLE_WORD } else { 0 };
        rest.expect("(")?;
        let (base, offset) = self.address(rest)?;
        rest.expect(",")?;
        if !name.starts_with("cmpxchg") {
            return self.atomic(rest, to, size, (base, offset, atomic::EXCHANGE));
        }
        // What is compared with and what was there are always in r0.
        if to.number != 0 || rest.register()? != to {
            return Err(Mistake::Register);
        }
        rest.expect(",")?;
        let value = rest.register()?;
        same_width(to, value)?;
        self.end_atomic(rest, value, size, (base, offset, atomic::COMPARE_EXCHANGE))
    }

    fn atomic(&mut self, rest: &mut Cursor<'_>, to: Register, size: u8, op: (u8, i16, i32)) -> Result<(), Mistake> {
        let value = rest.register()?;
        if value != to {
            return Err(Mistake::Register);
        }
        self.end_atomic(rest, value, size, op)
    }

    fn end_atomic(
        &mut self,
        rest: &mut Cursor<'_>,
        value: Register,
        size: u8,
        (base, offset, operation): (u8, i16, i32),
    ) -> Result<(), Mistake> {
        rest.expect(")")?;
        if value.wide != (size == DOUBLE_WORD) {
            return Err(Mistake::Register);
        }
        self.push(Insn::new(class::STX | mode::ATOMIC | size, base, value.number, offset, operation));
        Ok(())
    }

    /// `MAP ll` or `MAP[OFFSET] ll`, after its name.
    fn map(&mut self, rest: &mut Cursor<'_>, to: Register, name: &str) -> Result<(), Mistake> {
        let mut kind = pseudo::MAP;
        let mut within = 0;
        if rest.sign("[") {
            kind = pseudo::MAP_VALUE;
            within = i32::try_from(self.constant(rest)?).ok().filter(|at| *at >= 0).ok_or(Mistake::Range)?;
            rest.expect("]")?;
        }
        if !rest.word("ll") {
            return Err(Mistake::Constant(name.to_owned()));
        }
        if !to.wide {
            return Err(Mistake::Register);
        }
        self.references.push(Reference { at: self.code.len(), map: name.to_owned() });
        self.push(Insn::new(class::LD | mode::IMM | DOUBLE_WORD, to.number, kind, 0, 0));
        self.push(Insn::new(0, 0, 0, 0, within));
        Ok(())
    }

    /// A 64-bit constant.
    fn long(&mut self, to: Register, value: i64) -> Result<(), Mistake> {
        if !to.wide {
            return Err(Mistake::Register);
        }
        self.push(Insn::new(class::LD | mode::IMM | DOUBLE_WORD, to.number, 0, 0, value as i32));
        self.push(Insn::new(0, 0, 0, 0, (value >> 32) as i32));
        Ok(())
    }

    /// `rN + OFFSET`, `rN - OFFSET` or `rN`.
    fn address(&self, rest: &mut Cursor<'_>) -> Result<(u8, i16), Mistake> {
        let base = rest.wide()?;
        let offset = if rest.sign("+") {
            self.constant(rest)?
        } else if rest.peek() == Some(Token::Sign("-")) {
            // The sign belongs to the constant.
            self.constant(rest)?
        } else {
            0
        };
        Ok((base, i16::try_from(offset).map_err(|_| Mistake::Range)?))
    }

    fn operand(&self, rest: &mut Cursor<'_>) -> Result<Operand, Mistake> {
        if let Some(Token::Word(word)) = rest.peek()
            && let Some(found) = register(word)
        {
            rest.next();
            return Ok(Operand::Register(found));
        }
        self.constant(rest).map(Operand::Constant)
    }

    /// A number or a constant's name, perhaps after a minus.
    fn constant(&self, rest: &mut Cursor<'_>) -> Result<i64, Mistake> {
        let minus = rest.sign("-");
        let value = match rest.next() {
            Some(Token::Number(number)) if minus => {
                return 0_i64.checked_sub_unsigned(number).ok_or(Mistake::Range);
            }
            // The upper half of the range is that of addresses and masks.
            Some(Token::Number(number)) => number as i64,
            Some(Token::Word(name)) => *self.constants.get(name).ok_or_else(|| Mistake::Constant(name.to_owned()))?,
            _ => return Err(Mistake::Statement),
        };
        if minus { value.checked_neg().ok_or(Mistake::Range) } else { Ok(value) }
    }

    fn push(&mut self, insn: Insn) {
        self.code.push(insn);
        self.lines.push(self.line);
    }

    fn finish(mut self) -> Result<Assembly, AssembleError> {
        let end = self.line + 1;
        for (at, label) in core::mem::take(&mut self.jumps) {
            let wrong = || AssembleError { line: self.lines[at], mistake: Mistake::Label(label.clone()) };
            let target = *self.labels.get(&label).ok_or_else(wrong)?;
            // Counted from the next instruction (RFC 9669 §4.3).
            let distance = target as i64 - (at as i64 + 1);
            let insn = &mut self.code[at];
            if insn.code == class::JMP | jump::CALL {
                insn.imm = i32::try_from(distance).map_err(|_| wrong())?;
            } else {
                insn.offset = i16::try_from(distance).map_err(|_| wrong())?;
            }
        }
        let missing = |name| AssembleError { line: end, mistake: Mistake::Missing(name) };
        Ok(Assembly {
            kind: self.kind.ok_or_else(|| missing(".type"))?,
            kernel: self.kernel.ok_or_else(|| missing(".kernel"))?,
            license: self.license.ok_or_else(|| missing(".license"))?,
            code: self.code,
            references: self.references,
            kernel_calls: self.kernel_calls,
            lines: self.lines,
        })
    }
}

#[cfg(test)]
mod tests;
