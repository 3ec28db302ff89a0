//! A line of assembly as words, numbers and signs.

/// The smallest pieces of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token<'a> {
    /// A name: register, label, map, constant, keyword or directive.
    Word(&'a str),
    /// Digits, or hexadecimal ones after `0x`.
    Number(u64),
    /// An operator or bracket.
    Sign(&'a str),
}

/// Operators, each before its own beginnings.
const SIGNS: [&str; 39] = [
    "s>>=", "<<=", ">>=", "s>=", "s<=", "s>", "s<", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "==", "!=", ">=",
    "<=", "=", ">", "<", "&", "*", "(", ")", "+", "-", ",", ":", "[", "]", "/", "%", "|", "^", "!", "~", "@",
];

/// Divides `line` into tokens; a `#` begins a comment. The error is the text
/// that cannot be read.
pub(crate) fn tokens(line: &str) -> Result<Vec<Token<'_>>, &str> {
    let mut rest = line.split('#').next().unwrap_or_default().trim_start();
    let mut found = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (token, length) = if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(*sign)) {
            (Token::Sign(sign), sign.len())
        } else if first.is_ascii_digit() {
            let length = span(rest, |c| c.is_ascii_alphanumeric());
            (Token::Number(number(&rest[..length]).ok_or(&rest[..length])?), length)
        } else if first.is_ascii_alphabetic() || "_.".contains(first) {
            let length = span(rest, |c| c.is_ascii_alphanumeric() || "_.".contains(c));
            (Token::Word(&rest[..length]), length)
        } else {
            return Err(rest);
        };
        found.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(found)
}

fn span(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.find(|c| !of(c)).unwrap_or(text.len())
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Token::{Number, Sign, Word};

    #[test]
    fn lines_are_divided() {
        let found = tokens("  if r1 s>= 0x10 goto out # why").unwrap();
        assert_eq!(found, [Word("if"), Word("r1"), Sign("s>="), Number(16), Word("goto"), Word("out")]);
        let found = tokens("*(u8 *)(r10-1)=r2").unwrap();
        let signs = ["*", "(", "*", ")", "(", "-", ")", "="];
        assert_eq!(found.iter().filter(|token| matches!(token, Sign(_))).count(), signs.len());
        assert_eq!(tokens("# nothing"), Ok(vec![]));
    }

    #[test]
    fn what_is_no_token_is_named() {
        assert_eq!(tokens("r1 = $5"), Err("$5"));
        assert_eq!(tokens("r1 = 5x"), Err("5x"));
        assert_eq!(tokens("r1 = 0xfffffffff00000000"), Err("0xfffffffff00000000"));
    }
}
