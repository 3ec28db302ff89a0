//! Statements of one text: words up to `;`, `{` or `}`, as nginx reads them.
//!
//! A word ends at a blank, at `;` or at `{`; one in quotes at its quote, behind
//! which only those may stand, or `)`. `${` does not open a block. A backslash
//! keeps the byte behind it from meaning anything; of a word `\"`, `\'` and `\\`
//! then become the second byte, and `\t`, `\r`, `\n` a blank; others stay as
//! they are. `#` at the start of a word begins a comment.

/// The longest word, in bytes: what nginx's buffer holds.
pub const WORD_MAX: usize = 4096;

/// What ends a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// `;`
    Semicolon,
    /// `{`: a block follows.
    Open,
    /// `}`: no words stand before it.
    Close,
    /// The text has ended; no words stand before it.
    Text,
}

/// Words and what ended them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// The words.
    pub words: Vec<Vec<u8>>,
    /// What ended them.
    pub end: End,
    /// The line where they ended.
    pub line: u32,
}

/// What a text is: the words of its errors differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Text {
    /// A file's.
    File,
    /// Of the command line.
    Parameter,
}

/// See the module.
#[derive(Debug)]
pub struct Lexer<'a> {
    text: &'a [u8],
    of: Text,
    at: usize,
    line: u32,
}

/// Where the next byte belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Between words.
    Blank,
    /// In a comment.
    Comment,
    /// In a word.
    Word(Word),
    /// Behind a closing quote.
    Behind,
}

/// A word that is read.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word {
    /// Where it begins, behind its quote.
    from: usize,
    /// What it ends with, if it is quoted.
    quote: Option<u8>,
    /// The line where it begins.
    line: u32,
    /// A backslash stood before the next byte.
    escaped: bool,
    /// A `$` did.
    dollar: bool,
}

/// A word has ended.
struct Over;

/// What a byte leads to.
enum Step {
    Go(State),
    Done(End),
    Unexpected,
}

/// Bytes that mean nothing in a word, in quotes or not.
const PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let special = b" \t\r\n;{\\$\"'";
    let mut at = 0;
    while at < special.len() {
        plain[special[at] as usize] = false;
        at += 1;
    }
    plain
};

impl Word {
    /// With another byte, if it belongs to it.
    const fn with(self, byte: u8) -> Result<Self, Over> {
        if self.escaped {
            return Ok(Self { escaped: false, ..self });
        }
        if byte == b'{' && self.dollar {
            return Ok(self);
        }
        match (byte, self.quote) {
            (b'\\' | b'$', _) => Ok(Self { escaped: byte == b'\\', dollar: byte == b'$', ..self }),
            (_, Some(quote)) if byte == quote => Err(Over),
            (b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{', None) => Err(Over),
            _ => Ok(Self { dollar: false, ..self }),
        }
    }
}

/// A byte behind a closing quote.
const fn behind(byte: u8) -> Step {
    match byte {
        b' ' | b'\t' | b'\r' | b'\n' => Step::Go(State::Blank),
        b';' => Step::Done(End::Semicolon),
        b'{' => Step::Done(End::Open),
        _ => Step::Unexpected,
    }
}

impl<'a> Lexer<'a> {
    /// At the start of `text`.
    pub const fn new(text: &'a [u8], of: Text) -> Self {
        Self { text, of, at: 0, line: 1 }
    }

    /// The next statement.
    ///
    /// # Errors
    /// What is wrong, in nginx's words, and the line.
    pub fn next(&mut self) -> Result<Statement, (String, u32)> {
        let mut words = Vec::new();
        let mut state = State::Blank;
        loop {
            self.pass_plain(state);
            let Some(&byte) = self.text.get(self.at) else { break };
            if let State::Word(word) = state
                && self.at - word.from >= WORD_MAX
            {
                return Err((too_long(&self.text[word.from..], word.quote), word.line));
            }
            self.at += 1;
            self.line += u32::from(byte == b'\n');
            if state == State::Behind && byte == b')' {
                state = State::Blank;
            }
            let step = match state {
                State::Comment => Step::Go(if byte == b'\n' { State::Blank } else { State::Comment }),
                State::Behind => behind(byte),
                State::Blank => self.between(byte, words.is_empty()),
                State::Word(word) => match word.with(byte) {
                    Ok(word) => Step::Go(State::Word(word)),
                    Err(Over) => {
                        words.push(unescaped(&self.text[word.from..self.at - 1]));
                        match (byte, word.quote) {
                            (_, Some(_)) => Step::Go(State::Behind),
                            (b';', None) => Step::Done(End::Semicolon),
                            (b'{', None) => Step::Done(End::Open),
                            (_, None) => Step::Go(State::Blank),
                        }
                    }
                },
            };
            match step {
                Step::Go(next) => state = next,
                Step::Done(end) => return Ok(self.ended(words, end)),
                Step::Unexpected => return Err((format!("unexpected \"{}\"", char::from(byte)), self.line)),
            }
        }
        if words.is_empty() && matches!(state, State::Blank | State::Comment) {
            return Ok(self.ended(words, End::Text));
        }
        let what = match self.of {
            Text::File => "unexpected end of file, expecting \";\" or \"}\"",
            Text::Parameter => "unexpected end of parameter, expecting \";\"",
        };
        Err((what.to_owned(), self.line))
    }

    /// Passes what leaves `state` as it is: most bytes of a configuration.
    fn pass_plain(&mut self, state: State) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let first_other = |is_plain: fn(u8) -> bool| rest.iter().position(|byte| !is_plain(*byte));
        let other = match state {
            State::Word(Word { escaped: false, dollar: false, from, .. }) => {
                let other = first_other(|byte| PLAIN[usize::from(byte)]);
                // One that is too long is told at its last byte.
                Some(other.unwrap_or(rest.len()).min(WORD_MAX.saturating_sub(self.at - from)))
            }
            State::Comment => first_other(|byte| byte != b'\n'),
            State::Blank => first_other(|byte| matches!(byte, b' ' | b'\t' | b'\r')),
            State::Word(_) | State::Behind => Some(0),
        };
        self.at += other.unwrap_or(rest.len());
    }

    /// Passes a block of Lua, whose `{` has been read, up to its `}`: braces in strings and
    /// comments are none, and quotes and `#` mean what they mean in Lua (the Lua 5.1
    /// manual, section 2.1).
    ///
    /// # Errors
    /// The text ends within it.
    pub fn pass_lua(&mut self) -> Result<(), (String, u32)> {
        let mut depth = 0_usize;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let used = match rest {
                [] => return Err(("unexpected end of file, expecting \"}\"".to_owned(), self.line)),
                [b'}', ..] if depth == 0 => {
                    self.at += 1;
                    return Ok(());
                }
                [b'}', ..] => {
                    depth -= 1;
                    1
                }
                [b'{', ..] => {
                    depth += 1;
                    1
                }
                [b'-', b'-', behind @ ..] => {
                    let line = || behind.iter().position(|byte| *byte == b'\n').unwrap_or(behind.len());
                    2 + long_bracket(behind).unwrap_or_else(line)
                }
                [b'[', ..] => long_bracket(rest).unwrap_or(1),
                [quote @ (b'"' | b'\''), behind @ ..] => 1 + quoted(behind, *quote),
                _ => 1,
            };
            let passed = rest.get(..used).unwrap_or(rest);
            self.line += passed.iter().filter(|byte| **byte == b'\n').count() as u32;
            self.at += passed.len();
        }
    }

    /// A byte between words, which has been passed.
    fn between(&self, byte: u8, first: bool) -> Step {
        let word = Word { from: self.at - 1, quote: None, line: self.line, escaped: false, dollar: false };
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => Step::Go(State::Blank),
            b';' | b'{' if first => Step::Unexpected,
            b';' => Step::Done(End::Semicolon),
            b'{' => Step::Done(End::Open),
            b'}' if first => Step::Done(End::Close),
            b'}' => Step::Unexpected,
            b'#' => Step::Go(State::Comment),
            b'"' | b'\'' => Step::Go(State::Word(Word { from: self.at, quote: Some(byte), ..word })),
            _ => Step::Go(State::Word(Word { escaped: byte == b'\\', dollar: byte == b'$', ..word })),
        }
    }

    const fn ended(&self, words: Vec<Vec<u8>>, end: End) -> Statement {
        Statement { words, end, line: self.line }
    }
}

/// The length of a long bracket of Lua (`[[ ]]`, `[==[ ]==]`) that `text` begins with; of
/// all of it, if it has no end.
fn long_bracket(text: &[u8]) -> Option<usize> {
    let level = text.strip_prefix(b"[")?.iter().take_while(|byte| **byte == b'=').count();
    if text.get(1 + level) != Some(&b'[') {
        return None;
    }
    let end = [&b"]"[..], &text[1..=level], b"]"].concat();
    let inside = &text[level + 2..];
    let length = inside.windows(end.len()).position(|window| window == end);
    Some(length.map_or(text.len(), |length| level + 2 + length + end.len()))
}

/// The length of what stands before a closing quote of Lua, and of the quote.
fn quoted(text: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            byte if *byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

fn too_long(word: &[u8], quote: Option<u8>) -> String {
    match quote {
        Some(quote) => {
            format!("too long parameter, probably missing terminating \"{}\" character", char::from(quote))
        }
        None => format!("too long parameter \"{}...\" started", String::from_utf8_lossy(&word[..word.len().min(10)])),
    }
}

fn unescaped(word: &[u8]) -> Vec<u8> {
    if !word.contains(&b'\\') {
        return word.to_vec();
    }
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [byte, behind @ ..] = rest {
        let (what, used) = match (byte, behind.first()) {
            (b'\\', Some(second @ (b'"' | b'\'' | b'\\'))) => (*second, 2),
            (b'\\', Some(b't')) => (b'\t', 2),
            (b'\\', Some(b'r')) => (b'\r', 2),
            (b'\\', Some(b'n')) => (b'\n', 2),
            _ => (*byte, 1),
        };
        plain.push(what);
        rest = &rest[used..];
    }
    plain
}

#[cfg(test)]
mod tests;
