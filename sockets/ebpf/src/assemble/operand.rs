//! What statements are made of: words and signs, taken one after the other, and
//! what they mean as fields of an instruction.

use super::Mistake;
use crate::insn::{DOUBLE_WORD, FROM_REGISTER, SIZES, class};
use crate::lex::Token;

/// The rest of a line.
pub(super) struct Cursor<'a> {
    pub(super) tokens: &'a [Token<'a>],
}

impl<'a> Cursor<'a> {
    pub(super) fn peek(&self) -> Option<Token<'a>> {
        self.tokens.first().copied()
    }

    pub(super) fn next(&mut self) -> Option<Token<'a>> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(*first)
    }

    /// Takes `sign` if it is next.
    pub(super) fn sign(&mut self, sign: &str) -> bool {
        let found = self.peek() == Some(Token::Sign(sign));
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    /// Takes `word` if it is next.
    pub(super) fn word(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(Token::Word(word));
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    pub(super) fn expect(&mut self, sign: &str) -> Result<(), Mistake> {
        if self.sign(sign) { Ok(()) } else { Err(Mistake::Statement) }
    }

    pub(super) fn any_word(&mut self) -> Result<&'a str, Mistake> {
        match self.next() {
            Some(Token::Word(word)) => Ok(word),
            _ => Err(Mistake::Statement),
        }
    }

    pub(super) fn register(&mut self) -> Result<Register, Mistake> {
        self.any_word().ok().and_then(register).ok_or(Mistake::Register)
    }

    /// A register that 64-bit values and addresses are in.
    pub(super) fn wide(&mut self) -> Result<u8, Mistake> {
        self.register().and_then(|found| if found.wide { Ok(found.number) } else { Err(Mistake::Register) })
    }

    /// One of `table`'s operators.
    pub(super) fn operator<C: Copy>(&mut self, table: &[(&str, C)]) -> Result<C, Mistake> {
        let Some(Token::Sign(sign)) = self.next() else { return Err(Mistake::Statement) };
        lookup(table, sign).ok_or(Mistake::Statement)
    }

    pub(super) fn end(&self) -> Result<(), Mistake> {
        if self.tokens.is_empty() { Ok(()) } else { Err(Mistake::Trailing) }
    }
}

/// A register operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Register {
    pub(super) number: u8,
    /// `r`, rather than `w`.
    pub(super) wide: bool,
}

/// What stands on the right of an operator.
pub(super) enum Operand {
    Register(Register),
    Constant(i64),
}

pub(super) fn lookup<C: Copy>(table: &[(&str, C)], name: &str) -> Option<C> {
    table.iter().find(|(known, _)| *known == name).map(|(_, code)| *code)
}

/// `r0` to `r10`, `w0` to `w10`.
pub(super) fn register(word: &str) -> Option<Register> {
    let wide = word.starts_with('r');
    let digits = word.strip_prefix(['r', 'w'])?;
    let number = digits.parse::<u8>().ok().filter(|number| *number <= 10 && digits == number.to_string())?;
    Some(Register { number, wide })
}

pub(super) const fn class_of(wide: bool) -> u8 {
    if wide { class::ALU64 } else { class::ALU }
}

/// `(SIZE *)`.
pub(super) fn cast(rest: &mut Cursor<'_>) -> Result<u8, Mistake> {
    rest.expect("(")?;
    let size = lookup(&SIZES, rest.any_word()?).ok_or(Mistake::Statement)?;
    rest.expect("*")?;
    rest.expect(")")?;
    Ok(size)
}

/// Atomic operations are of 32 or 64 bits (RFC 9669 §5.3).
pub(super) fn atomic_size(size: u8) -> Result<u8, Mistake> {
    if [0, DOUBLE_WORD].contains(&size) { Ok(size) } else { Err(Mistake::Range) }
}

/// The source bit and the width of a change of byte order (RFC 9669 §4.2).
pub(super) fn byte_order(word: &str) -> Option<(u8, i32)> {
    let order = match word.get(..2)? {
        "le" => 0,
        "be" => FROM_REGISTER,
        _ => return None,
    };
    let bits = word[2..].parse().ok().filter(|bits| [16, 32, 64].contains(bits))?;
    Some((order, bits))
}

pub(super) fn same_width(left: Register, right: Register) -> Result<(), Mistake> {
    if left.wide == right.wide { Ok(()) } else { Err(Mistake::Register) }
}

/// A constant as its field takes it: 64-bit operations extend its sign, 32-bit
/// ones take any 32 bits.
pub(super) fn immediate(value: i64, wide: bool) -> Result<i32, Mistake> {
    match i32::try_from(value) {
        Ok(fits) => Ok(fits),
        Err(_) if !wide => u32::try_from(value).map(|bits| bits as i32).map_err(|_| Mistake::Range),
        Err(_) => Err(Mistake::Range),
    }
}
