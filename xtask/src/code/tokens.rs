//! The tokens of a source's product code: without comments, tests, and what stands in
//! strings.

/// A token, and the line that it stands in, from one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token<'a> {
    /// Its text: a word, a sign (`->`, `=>` and `::` are one), [`Token::LITERAL`], or a
    /// lifetime.
    pub text: &'a str,
    /// Its line.
    pub line: usize,
}

impl Token<'_> {
    /// The text of a string or a character.
    pub const LITERAL: &'static str = "\"\"";

    /// Whether it is a name or a keyword.
    #[must_use]
    pub fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// The text of a source's product code, and where in it the tokens stand.
#[derive(Debug)]
pub struct Tokens {
    text: String,
    /// The first byte of each, its length (of a literal 0), and its line.
    places: Vec<(usize, usize, usize)>,
}

impl Tokens {
    /// Those of these lines. What is compiled for tests alone is left out.
    #[must_use]
    pub fn new(lines: &[String]) -> Self {
        let text = lines.join("\n");
        let mut lexer = Lexer { text: &text, at: 0, line: 1 };
        let mut all = Vec::with_capacity(text.len() / 4);
        let mut places = Vec::with_capacity(text.len() / 4);
        while let Some(token) = lexer.next() {
            let length = if token.text == Token::LITERAL { 0 } else { token.text.len() };
            places.push((lexer.at - length, length, token.line));
            all.push(token);
        }
        let kept = without_tests(&all);
        let places = kept.into_iter().map(|at| places[at]).collect();
        Self { text, places }
    }

    /// All of them, in order.
    #[must_use]
    pub fn all(&self) -> Vec<Token<'_>> {
        let token = |(start, length, line): &(usize, usize, usize)| Token {
            text: if *length == 0 { Token::LITERAL } else { &self.text[*start..start + length] },
            line: *line,
        };
        self.places.iter().map(token).collect()
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let rest = self.rest();
            match *rest.first()? {
                b'\n' => self.skip(1),
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'/' if rest.starts_with(b"//") => self.skip_to(b"\n"),
                b'/' if rest.starts_with(b"/*") => self.skip_comment(),
                _ => break,
            }
        }
        let line = self.line;
        let rest = self.rest();
        let text = match rest[0] {
            b'"' => self.string(0),
            b'\'' => self.quote(),
            first if is_of_word(first) => match raw_string(rest) {
                Some((prefix, hashes)) => self.raw(prefix, hashes),
                None if is_prefix(rest) => self.string(rest.iter().position(|byte| *byte == b'"').unwrap_or_default()),
                None if rest.starts_with(b"b'") => {
                    self.at += 1;
                    self.quote()
                }
                None => self.word(),
            },
            _ => self.sign(),
        };
        Some(Token { text, line })
    }

    /// Goes on by so many bytes.
    fn skip(&mut self, bytes: usize) {
        let rest = self.rest();
        let bytes = bytes.min(rest.len());
        self.line += rest[..bytes].iter().filter(|byte| **byte == b'\n').count();
        self.at += bytes;
    }

    /// Goes on to where this stands, or to the end.
    fn skip_to(&mut self, end: &[u8]) {
        let rest = self.rest();
        self.skip(rest.windows(end.len()).position(|window| window == end).unwrap_or(rest.len()));
    }

    fn skip_comment(&mut self) {
        let mut depth = 0;
        loop {
            let rest = self.rest();
            let mark = rest.get(..2);
            match mark {
                Some(b"/*") => depth += 1,
                Some(b"*/") => depth -= 1,
                Some(_) => {
                    self.skip(1);
                    continue;
                }
                None => return self.skip(rest.len()),
            }
            self.skip(2);
            if depth == 0 {
                return;
            }
        }
    }

    /// A string whose quote stands so many bytes from here.
    fn string(&mut self, prefix: usize) -> &'a str {
        let rest = self.rest();
        let mut end = prefix + 1;
        while end < rest.len() && rest[end] != b'"' {
            end += if rest[end] == b'\\' { 2 } else { 1 };
        }
        self.skip(end + 1);
        Token::LITERAL
    }

    fn raw(&mut self, prefix: usize, hashes: usize) -> &'a str {
        self.skip(prefix);
        let end = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
        self.skip_to(&end);
        self.skip(end.len());
        Token::LITERAL
    }

    /// A character, or a lifetime.
    fn quote(&mut self) -> &'a str {
        let rest = &self.text[self.at + 1..];
        let mut chars = rest.chars();
        let first = chars.next().unwrap_or('\'');
        if first == '\\' {
            let end = rest[2..].find('\'').map_or(rest.len(), |at| at + 3);
            self.skip(1 + end);
            return Token::LITERAL;
        }
        if chars.next() == Some('\'') {
            self.skip(2 + first.len_utf8());
            return Token::LITERAL;
        }
        let length = rest.bytes().take_while(|byte| is_of_word(*byte)).count();
        self.take(1 + length)
    }

    fn word(&mut self) -> &'a str {
        self.take(self.rest().iter().take_while(|byte| is_of_word(**byte)).count())
    }

    fn sign(&mut self) -> &'a str {
        let rest = self.rest();
        let is_pair = [b"::", b"->", b"=>"].iter().any(|pair| rest.starts_with(*pair));
        self.take(if is_pair { 2 } else { 1 })
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let text = &self.text[self.at..self.at + bytes];
        self.at += bytes;
        text
    }
}

/// Whether a byte is of a word, a number, or of a letter beyond ASCII.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Whether a string with a prefix begins here.
fn is_prefix(rest: &[u8]) -> bool {
    [&b"b\""[..], b"c\""].iter().any(|prefix| rest.starts_with(prefix))
}

/// The bytes before the content of a raw string, and how many `#` end it.
fn raw_string(rest: &[u8]) -> Option<(usize, usize)> {
    let prefix = [&b"br"[..], b"cr", b"r"].iter().find(|prefix| rest.starts_with(prefix))?.len();
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    (rest.get(prefix + hashes) == Some(&b'"')).then_some((prefix + hashes + 1, hashes))
}

/// The places of tokens, but for those of each item behind `#[cfg(test)]`.
fn without_tests(all: &[Token<'_>]) -> Vec<usize> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::with_capacity(all.len());
    let mut at = 0;
    while at < all.len() {
        let is_marked = || MARK.iter().zip(&all[at..]).filter(|(a, b)| **a == b.text).count() == MARK.len();
        if all[at].text == "#" && is_marked() {
            at = end_of_item(all, at + MARK.len());
        } else {
            kept.push(at);
            at += 1;
        }
    }
    kept
}

/// The place behind an item that begins here: behind its braces, or its semicolon.
fn end_of_item(all: &[Token<'_>], from: usize) -> usize {
    let mut depth = 0_i32;
    for (at, token) in all.iter().enumerate().skip(from) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            "}" if depth == 1 => {
                return if all.get(at + 1).is_some_and(|next| next.text == ";") { at + 2 } else { at + 1 };
            }
            ")" | "]" | "}" => depth -= 1,
            ";" | "," if depth == 0 => return at + 1,
            _ => {}
        }
        if depth < 0 {
            return at;
        }
    }
    all.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Tokens {
        Tokens::new(&text.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    fn texts(text: &str) -> Vec<String> {
        tokens(text).all().iter().map(|token| token.text.to_owned()).collect()
    }

    #[test]
    fn what_is_no_code_is_left_out() {
        let text =
            "a // b\n/* c /* d */ e */ f(\"g\\\"h\", 'i', '\\'', b'j', br#\"k\"l\"#, r\"m\", b\"n\") 'o: p -> q::r";
        let expected = "a f ( \"\" , \"\" , \"\" , \"\" , \"\" , \"\" , \"\" ) 'o : p -> q :: r";
        assert_eq!(texts(text).join(" "), expected);
    }

    #[test]
    fn lines_are_counted_within_strings_and_comments() {
        let tokens = tokens("\"a\nb\" c\n/*\n\n*/ d\nr#\"\n\"# e\n");
        let words = tokens.all().into_iter().filter(Token::is_word);
        let lines: Vec<_> = words.map(|token| (token.text.to_owned(), token.line)).collect();
        assert_eq!(lines, [("c".to_owned(), 2), ("d".to_owned(), 5), ("e".to_owned(), 7)]);
    }

    #[test]
    fn items_for_tests_are_left_out() {
        let text = "a;\n#[cfg(test)]\n#[derive(B)]\nimpl C for [D; 2] {\n    fn e() {}\n}\nf;\n#[cfg(test)]\nuse g::{h, i};\nj;\n\
                    struct K {\n    #[cfg(test)]\n    l: u8,\n    m: u8,\n}\n";
        assert_eq!(texts(text).join(" "), "a ; f ; j ; struct K { m : u8 , }");
    }
}
