//! A command as it is written: its name and its parameters.

/// Bytes of a command's name, and of a parameter's.
const NAME_MAX: usize = 32;

/// Parameters that are looked at.
const PARAMETERS_MAX: usize = 16;

/// A command that is being read.
#[derive(Debug)]
pub(super) struct Words {
    state: State,
    value_max: usize,
    pub name: Vec<u8>,
    /// Names and values.
    pub parameters: Vec<(Vec<u8>, Vec<u8>)>,
    /// There were more.
    pub too_many: bool,
    /// Why it is no command, once that was found out, in nginx's words.
    pub fault: Option<Vec<u8>>,
}

/// What came of a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    /// There is more to come.
    More,
    /// The command is complete.
    Command,
    /// It is none, and has ended.
    Failed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    BeforeName,
    Name,
    BeforeParameter,
    Parameter,
    BeforeEqual,
    BeforeValue,
    /// In quotes of this kind.
    Value(u8),
    /// Behind a backslash in them.
    Quoted(u8),
    AfterValue,
    /// Behind so many hyphens of the end.
    End(u8),
    /// It is none: its end is looked for, behind so many of its hyphens.
    Wrong(u8),
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\r' | b'\n' | b'\t')
}

impl Words {
    pub const fn new(value_max: usize) -> Self {
        Self {
            state: State::BeforeName,
            value_max,
            name: Vec::new(),
            parameters: Vec::new(),
            too_many: false,
            fault: None,
        }
    }

    /// Another begins.
    pub fn clear(&mut self) {
        *self = Self { name: core::mem::take(&mut self.name), ..Self::new(self.value_max) };
        self.name.clear();
    }

    /// One byte more.
    pub fn take(&mut self, byte: u8) -> Word {
        let before = self.state;
        let word = self.step(byte);
        if matches!(self.state, State::Wrong(_)) && !matches!(before, State::Wrong(_)) {
            self.fault = Some(self.fault_in(before, byte));
        }
        word
    }

    /// The command as it would be written.
    pub fn written(&self) -> Vec<u8> {
        let mut out = [super::BEGIN, &self.name].concat();
        for (name, value) in &self.parameters {
            out.extend_from_slice(&[b" ", &name[..], b"=\"", value, b"\""].concat());
        }
        out.extend_from_slice(b" -->");
        out
    }

    /// What is wrong with a byte in a state.
    fn fault_in(&self, state: State, byte: u8) -> Vec<u8> {
        let (name, value) = self.parameters.last().map_or((&b""[..], &b""[..]), |(name, value)| (name, value));
        let (unexpected, behind) = (&b"unexpected \""[..], &b"\" parameter in \""[..]);
        let parts: &[&[u8]] = match state {
            State::Name => {
                return [b"the \"", self.name.as_slice(), &[byte], b"...\" SSI command is too long"].concat();
            }
            State::Parameter if byte != b'-' => &[b"too long \"", name, &[byte], b"...", behind],
            State::Parameter | State::BeforeEqual => &[unexpected, &[byte], b"\" symbol after \"", name, behind],
            State::BeforeValue => &[unexpected, &[byte], b"\" symbol before value of \"", name, behind],
            State::Value(_) | State::Quoted(_) => &[b"too long \"", value, &[byte], b"...\" value of \"", name, behind],
            State::AfterValue => &[unexpected, &[byte], b"\" symbol after \"", value, b"\" value of \"", name, behind],
            _ => &[unexpected, &[byte], b"\" symbol in \""],
        };
        [&parts.concat()[..], &self.name, b"\" SSI command"].concat()
    }

    fn step(&mut self, byte: u8) -> Word {
        let blank = is_blank(byte);
        let hyphen = byte == b'-';
        // Where no such byte may stand, one that may begin the end does.
        let wrong = if hyphen { State::Wrong(1) } else { State::Wrong(0) };
        let is_long = self.parameters.last().is_some_and(|(name, _)| name.len() == NAME_MAX);
        self.state = match self.state {
            State::BeforeName | State::BeforeParameter | State::BeforeEqual | State::BeforeValue if blank => self.state,
            State::BeforeName => {
                self.name.push(byte);
                State::Name
            }
            State::Name | State::AfterValue if blank => State::BeforeParameter,
            State::Name | State::BeforeParameter | State::AfterValue if hyphen => State::End(1),
            State::Name if self.name.len() == NAME_MAX => State::Wrong(0),
            State::Name => {
                self.name.push(byte);
                State::Name
            }
            State::BeforeParameter => {
                // What is beyond the most is read into the place of the last.
                if self.parameters.len() > PARAMETERS_MAX {
                    self.too_many = true;
                    self.parameters.pop();
                }
                self.parameters.push((vec![byte], Vec::new()));
                State::Parameter
            }
            State::Parameter if blank => State::BeforeEqual,
            State::Parameter | State::BeforeEqual if byte == b'=' => State::BeforeValue,
            State::Parameter if hyphen || is_long => wrong,
            State::Parameter => {
                self.last().0.push(byte);
                State::Parameter
            }
            State::BeforeValue if matches!(byte, b'"' | b'\'') => State::Value(byte),
            State::BeforeEqual | State::BeforeValue => wrong,
            State::Value(quote) if byte == quote => State::AfterValue,
            State::Value(quote) | State::Quoted(quote) => {
                let within = matches!(self.state, State::Quoted(_));
                if self.last().1.len() >= self.value_max {
                    State::Wrong(0)
                } else {
                    self.last().1.push(byte);
                    if !within && byte == b'\\' { State::Quoted(quote) } else { State::Value(quote) }
                }
            }
            State::AfterValue => State::Wrong(0),
            State::End(1) if hyphen => State::End(2),
            State::End(2) if byte == b'>' => {
                self.too_many |= self.parameters.len() > PARAMETERS_MAX;
                return Word::Command;
            }
            State::End(_) => State::Wrong(0),
            State::Wrong(2) if byte == b'>' => return Word::Failed,
            State::Wrong(seen @ 0..=1) if hyphen => State::Wrong(seen + 1),
            State::Wrong(_) => State::Wrong(0),
        };
        Word::More
    }

    /// The parameter that is being read.
    fn last(&mut self) -> &mut (Vec<u8>, Vec<u8>) {
        if self.parameters.is_empty() {
            self.parameters.push((Vec::new(), Vec::new()));
        }
        let last = self.parameters.len() - 1;
        &mut self.parameters[last]
    }
}
