//! A configuration is read: its files in their order, its directives in blocks.

use crate::lexer::{End, Lexer, Statement, Text};
use crate::message::{ConfError, Level, Message, Place, REASONS_MAX, SourceId};
use crate::rules::{Rule, rules};
use crate::source::ConfFiles;
use features::units::{number, offset, size, time};
use features::{Context, ValueForm};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Blocks and includes within each other, at most. nginx ends where its memory
/// or its descriptors do.
pub const DEPTH_MAX: usize = 128;

/// Files that are read, at most, counting one each time that it is included.
pub const FILES_MAX: usize = 65_536;

/// Bytes of all files together, at most.
pub const TEXT_MAX: usize = 256 << 20;

/// What is included in place of itself.
const INCLUDE: &[u8] = b"include";

/// A directive, and what stands in its block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directive {
    /// Its name; in a block of plain lines (`types`, `map`) the first word.
    pub name: Vec<u8>,
    /// Its arguments.
    pub arguments: Vec<Vec<u8>>,
    /// Where it ends.
    pub place: Place,
    /// Its rule; none for plain lines, and within `stream` and `mail`.
    pub rule: Option<&'static Rule>,
    /// Its block, if it has one.
    pub block: Option<Vec<Directive>>,
}

/// A file as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadFile {
    /// Its path.
    pub path: PathBuf,
    /// Its text.
    pub text: Arc<[u8]>,
}

/// A configuration as it is written: includes stand in their place, names,
/// contexts and values are checked by the rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Configuration {
    /// The files, by [`SourceId`].
    pub files: Vec<ReadFile>,
    /// What stands in no block; that of the command line first.
    pub directives: Vec<Directive>,
    /// What was said and is no reason to refuse it.
    pub warnings: Vec<Message>,
    /// What is wrong with it, as nginx says it: what is written there is left out.
    pub errors: Vec<Message>,
    /// Some of it was not read: what is not here may stand there.
    pub is_cut: bool,
}

impl Configuration {
    /// Reads the file at `path`, before it the directives of `globals`, which
    /// come from the command line. Other files are looked for beside it.
    ///
    /// # Errors
    /// What is wrong, as nginx says it.
    pub fn read(source: &mut dyn ConfFiles, path: &Path, globals: &[u8]) -> Result<Self, ConfError> {
        let mut all = Self::read_all(source, path, globals);
        let (errors, warnings) = (core::mem::take(&mut all.errors), all.warnings.clone());
        ConfError::of(errors, warnings).map_or(Ok(all), Err)
    }

    /// The same, for who asks for everything that is wrong: it goes on behind what is, as
    /// far as it can be told where that ends. [`crate::compile`] refuses what it returns
    /// then, and finds more.
    #[must_use]
    pub fn read_all(source: &mut dyn ConfFiles, path: &Path, globals: &[u8]) -> Self {
        let folder = path.parent().map(PathBuf::from).unwrap_or_default();
        let (files, open, warnings, errors) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut reader = Reader { source, folder, files, open, warnings, errors, bytes: 0, is_cut: false };
        let mut block = Block::default();
        if let Err(message) = reader.all(path, globals, &mut block) {
            reader.errors.push(message);
            reader.is_cut = true;
        }
        let Reader { files, warnings, errors, is_cut, .. } = reader;
        Self { files, directives: block.directives, warnings, errors, is_cut }
    }

    /// The path of a file.
    #[must_use]
    pub fn path(&self, file: SourceId) -> Option<&Path> {
        self.files.get(file.0 as usize).map(|file| file.path.as_path())
    }

    /// A message about what stands at `place`.
    #[must_use]
    pub fn message(&self, level: Level, text: String, place: Place) -> Message {
        message_at(&self.files, level, text, place)
    }

    /// All files, each once, as `nginx -T` prints them.
    #[must_use]
    pub fn dump(&self) -> Vec<u8> {
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        for file in self.files.iter().filter(|file| seen.insert(&file.path)) {
            all.extend_from_slice(format!("# configuration file {}:\n", file.path.display()).as_bytes());
            all.extend_from_slice(&file.text);
            all.push(b'\n');
        }
        all
    }
}

fn message_at(files: &[ReadFile], level: Level, text: String, place: Place) -> Message {
    let path = files.get(place.file.0 as usize).map(|file| file.path.clone());
    Message { level, text, place: Some((path, place.line)) }
}

/// What may stand in a block.
#[derive(Clone, Copy)]
enum Inside {
    /// Directives, by the rules.
    Rules(Context),
    /// Lines of words; where `include` is understood among them.
    Lines { include: bool },
    /// What is not ours to judge.
    Anything,
}

impl Inside {
    /// Of the block that belongs to `rule`, which stands in `outer`.
    fn of(rule: &Rule, outer: Context) -> Self {
        let context = match rule.name {
            "events" => Context::EVENTS,
            "http" => Context::HTTP,
            "server" => Context::SERVER,
            "upstream" => Context::UPSTREAM,
            "location" => Context::LOCATION,
            "limit_except" => Context::LIMIT_EXCEPT,
            "if" if outer == Context::SERVER => Context::IF_IN_SERVER,
            "if" => Context::IF_IN_LOCATION,
            "types" | "map" | "geo" => return Self::Lines { include: true },
            "split_clients" | "charset_map" => return Self::Lines { include: false },
            _ => return Self::Anything,
        };
        Self::Rules(context)
    }
}

/// What a block has so far.
#[derive(Default)]
struct Block {
    directives: Vec<Directive>,
    /// Names that stand once.
    names: HashSet<&'static str>,
    /// Words of values that are some of several.
    words: HashSet<(&'static str, &'static str)>,
}

struct Reader<'a> {
    source: &'a mut dyn ConfFiles,
    /// The folder of the first file.
    folder: PathBuf,
    files: Vec<ReadFile>,
    /// The files that are being read, the innermost last.
    open: Vec<PathBuf>,
    warnings: Vec<Message>,
    /// What is wrong and could be read past.
    errors: Vec<Message>,
    bytes: usize,
    /// Something was not read.
    is_cut: bool,
}

/// Where a reader is.
#[derive(Clone, Copy)]
struct At {
    file: SourceId,
    inside: Inside,
    depth: usize,
}

impl Reader<'_> {
    fn all(&mut self, path: &Path, globals: &[u8], block: &mut Block) -> Result<(), Message> {
        let inside = Inside::Rules(Context::MAIN);
        if !globals.is_empty() {
            let at = At { file: SourceId::COMMAND_LINE, inside, depth: 0 };
            self.text(&mut Lexer::new(globals, Text::Parameter), at, false, block)?;
        }
        self.file(path, None, inside, 0, block)
    }

    /// Reads a file, which was included at `from`, into `block`.
    fn file(
        &mut self,
        path: &Path,
        from: Option<Place>,
        inside: Inside,
        depth: usize,
        block: &mut Block,
    ) -> Result<(), Message> {
        let files = &self.files;
        let refused = |text: String| match from {
            Some(place) => message_at(files, Level::Emerg, text, place),
            None => Message { level: Level::Emerg, text, place: None },
        };
        if self.open.iter().any(|open| open == path) {
            return Err(refused(format!("\"{}\" includes itself", path.display())));
        }
        if depth >= DEPTH_MAX || files.len() >= FILES_MAX {
            return Err(refused(format!("too many files are included: at most {FILES_MAX}, {DEPTH_MAX} deep")));
        }
        let text = self.source.read(path, TEXT_MAX - self.bytes);
        let text: Arc<[u8]> = text.map_err(|why| refused(unread(path, &why)))?.into();
        self.bytes += text.len();
        let file = SourceId(files.len() as u32);
        self.files.push(ReadFile { path: path.to_owned(), text: Arc::clone(&text) });
        self.open.push(path.to_owned());
        let read = self.text(&mut Lexer::new(&text, Text::File), At { file, inside, depth }, false, block);
        self.open.pop();
        read
    }

    /// Reads statements up to the end of the text, or of the block.
    fn text(&mut self, lexer: &mut Lexer<'_>, at: At, in_block: bool, block: &mut Block) -> Result<(), Message> {
        loop {
            let next = lexer.next();
            let Statement { words, end, line } = next.map_err(|(text, line)| self.refused(at.file, line, text))?;
            let refused = |this: &Self, text: &str| Err(this.refused(at.file, line, text.to_owned()));
            match end {
                End::Close if in_block => return Ok(()),
                End::Close => return refused(self, "unexpected \"}\""),
                End::Text if in_block => return refused(self, "unexpected end of file, expecting \"}\""),
                End::Text => return Ok(()),
                End::Open if at.file == SourceId::COMMAND_LINE => {
                    return refused(self, "block directives are not supported in -g option");
                }
                End::Open | End::Semicolon => {}
            }
            self.statement(lexer, at, (words, end == End::Open, line), block)?;
        }
    }

    fn statement(
        &mut self,
        lexer: &mut Lexer<'_>,
        at: At,
        (words, opens, line): (Vec<Vec<u8>>, bool, u32),
        block: &mut Block,
    ) -> Result<(), Message> {
        let place = Place { file: at.file, line };
        let mut words = words.into_iter();
        let name = words.next().unwrap_or_default();
        let arguments: Vec<Vec<u8>> = words.collect();
        let (rule, inner) = match at.inside {
            Inside::Rules(context) => match rule(&name, context, opens, arguments.len()) {
                Ok(rule) => (Some(rule), Inside::of(rule, context)),
                Err(text) => {
                    let message = self.refused(at.file, line, text);
                    self.note(message)?;
                    return if opens { self.pass(lexer, &name, at) } else { Ok(()) };
                }
            },
            Inside::Lines { .. } if opens => {
                return Err(self.refused(at.file, line, "unexpected \"{\"".to_owned()));
            }
            inside => (None, inside),
        };
        let includes = rule.is_some() || matches!(at.inside, Inside::Lines { include: true });
        if name == INCLUDE && includes {
            let [pattern] = arguments.as_slice() else {
                let text = "invalid number of arguments in \"include\" directive".to_owned();
                return Err(self.refused(at.file, line, text));
            };
            return self.include(pattern, place, at, block).or_else(|message| {
                self.is_cut = true;
                self.note(message)
            });
        }
        if let Some(rule) = rule
            && let Err(message) = self.value(rule, &arguments, place, block)
        {
            self.note(message)?;
            return if opens { self.pass(lexer, &name, at) } else { Ok(()) };
        }
        let mut inner_block = None;
        if opens {
            if at.depth + 1 >= DEPTH_MAX {
                let text = format!("blocks stand within each other: at most {DEPTH_MAX} deep");
                return Err(self.refused(at.file, line, text));
            }
            let mut inside = Block::default();
            if matches!(inner, Inside::Anything) && is_lua(&name) {
                return self.pass(lexer, &name, at);
            }
            self.text(lexer, At { inside: inner, depth: at.depth + 1, ..at }, true, &mut inside)?;
            inner_block = Some(inside.directives);
        }
        block.directives.push(Directive { name, arguments, place, rule, block: inner_block });
        Ok(())
    }

    /// Goes on behind what is wrong.
    ///
    /// # Errors
    /// There is no end of it.
    fn note(&mut self, message: Message) -> Result<(), Message> {
        if self.errors.len() + 1 >= REASONS_MAX {
            return Err(message);
        }
        self.errors.push(message);
        Ok(())
    }

    /// Reads to the end of a block that is left out, of the directive `name`.
    fn pass(&mut self, lexer: &mut Lexer<'_>, name: &[u8], at: At) -> Result<(), Message> {
        if is_lua(name) {
            return lexer.pass_lua().map_err(|(text, line)| self.refused(at.file, line, text));
        }
        if at.depth + 1 >= DEPTH_MAX {
            let text = format!("blocks stand within each other: at most {DEPTH_MAX} deep");
            return Err(self.refused(at.file, 0, text));
        }
        let at = At { inside: Inside::Anything, depth: at.depth + 1, ..at };
        self.text(lexer, at, true, &mut Block::default())
    }

    /// Reads what is included in its place.
    fn include(&mut self, pattern: &[u8], place: Place, at: At, block: &mut Block) -> Result<(), Message> {
        let Ok(text) = core::str::from_utf8(pattern) else {
            return Err(self.refused(place.file, place.line, "the name of an included file is no UTF-8".to_owned()));
        };
        let path = self.folder.join(text);
        let is_pattern = text.bytes().any(|byte| b"*?[".contains(&byte));
        if !is_pattern {
            return self.file(&path, Some(place), at.inside, at.depth + 1, block);
        }
        let found = self.source.matching(&path.to_string_lossy());
        let failed = |why| self.refused(place.file, place.line, format!("glob() \"{}\" failed: {why}", path.display()));
        for path in found.map_err(failed)? {
            self.file(&path, Some(place), at.inside, at.depth + 1, block)?;
        }
        Ok(())
    }

    /// Whether the value has its form, and may stand here.
    fn value(
        &mut self,
        rule: &'static Rule,
        values: &[Vec<u8>],
        place: Place,
        block: &mut Block,
    ) -> Result<(), Message> {
        let refused = |this: &Self, text: String| Err(this.refused(place.file, place.line, text));
        if rule.form.stands_once() && !block.names.insert(rule.name) {
            return refused(self, format!("\"{}\" directive is duplicate", rule.name));
        }
        if let Some(text) = wrong(rule, values) {
            return refused(self, text);
        }
        if let ValueForm::SomeOf(words) = &rule.form {
            for value in values {
                let word = words.split(',').find(|word| value.eq_ignore_ascii_case(word.as_bytes()));
                if word.is_some_and(|word| !block.words.insert((rule.name, word))) {
                    let text = format!("duplicate value \"{}\"", String::from_utf8_lossy(value));
                    self.warnings.push(message_at(&self.files, Level::Warn, text, place));
                }
            }
        }
        Ok(())
    }

    fn refused(&self, file: SourceId, line: u32, text: String) -> Message {
        message_at(&self.files, Level::Emerg, text, Place { file, line })
    }
}

/// The rule for a directive, or why there is none.
fn rule(name: &[u8], context: Context, opens: bool, count: usize) -> Result<&'static Rule, String> {
    let told = String::from_utf8_lossy(name);
    let Some(rules) = rules().get(name) else { return Err(format!("unknown directive \"{told}\"")) };
    let Some(rule) = rules.iter().find(|rule| rule.contexts.contains(context)) else {
        return Err(format!("\"{told}\" directive is not allowed here"));
    };
    match (rule.block, opens) {
        (false, true) => Err(format!("directive \"{told}\" is not terminated by \";\"")),
        (true, false) => Err(format!("directive \"{told}\" has no opening \"{{\"")),
        _ if !rule.arguments.takes(count) => Err(format!("invalid number of arguments in \"{told}\" directive")),
        _ => Ok(rule),
    }
}

/// What is wrong with the value of a directive by its form, in nginx's words.
fn wrong(rule: &Rule, values: &[Vec<u8>]) -> Option<String> {
    let value = values.first().map_or(&[][..], Vec::as_slice);
    let name = rule.name;
    let is = |words: &str, value: &[u8]| words.split(',').any(|word| value.eq_ignore_ascii_case(word.as_bytes()));
    let invalid = |value: &[u8]| format!("invalid value \"{}\"", String::from_utf8_lossy(value));
    let bad = |good: bool| (!good).then(|| format!("\"{name}\" directive invalid value"));
    match &rule.form {
        ValueForm::Flag => (!is("on,off", value)).then(|| {
            let value = String::from_utf8_lossy(value);
            format!("invalid value \"{value}\" in \"{name}\" directive, it must be \"on\" or \"off\"")
        }),
        ValueForm::Number(bounds) => match (number(value), bounds) {
            (Err(_), _) => Some(format!("\"{name}\" directive invalid number")),
            (Ok(number), Some((from, to))) if !(*from..=*to).contains(&number) => {
                Some(format!("value must be between {from} and {to}"))
            }
            _ => None,
        },
        ValueForm::Size => bad(size(value).is_ok()),
        ValueForm::Offset => bad(offset(value).is_ok()),
        ValueForm::Time => bad(time(value, false).is_ok()),
        ValueForm::Seconds => bad(time(value, true).is_ok()),
        ValueForm::SizeValue => bad(value.contains(&b'$') || size(value).is_ok()),
        ValueForm::Buffers => {
            let some = |text: Option<&Vec<u8>>, read: fn(&[u8]) -> Result<u64, crate::BadValue>| {
                text.is_some_and(|text| read(text).is_ok_and(|value| value > 0))
            };
            bad(some(values.first(), number) && some(values.get(1), size))
        }
        ValueForm::OneOf(words) => (!is(words, value)).then(|| invalid(value)),
        ValueForm::SomeOf(words) => values.iter().find(|value| !is(words, value)).map(|value| invalid(value)),
        ValueForm::Access => values.iter().find(|value| !is_access(value)).map(|value| invalid(value)),
        ValueForm::Path => bad(values.iter().skip(1).all(|level| number(level).is_ok_and(|level| level > 0))),
        ValueForm::Text | ValueForm::Texts | ValueForm::Value | ValueForm::Predicate | ValueForm::Pair => None,
        ValueForm::MediaTypes | ValueForm::Own | ValueForm::OwnOnce => None,
    }
}

/// Whether the block of a directive is a program in Lua.
fn is_lua(name: &[u8]) -> bool {
    name.ends_with(b"_by_lua_block")
}

/// `user:rw`, `group:r` and the like.
fn is_access(value: &[u8]) -> bool {
    let who = [&b"user:"[..], b"group:", b"all:"].iter().find_map(|who| value.strip_prefix(*who));
    who.is_some_and(|rights| matches!(rights, b"rw" | b"r"))
}

/// That a file was not read, as nginx says it.
fn unread(path: &Path, why: &io::Error) -> String {
    /// `EISDIR` (errno(3)): it is opened, and cannot be read.
    const IS_A_FOLDER: i32 = 21;
    let path = path.display();
    match why.raw_os_error() {
        Some(number) => {
            let call = if number == IS_A_FOLDER { "pread" } else { "open" };
            let told = why.to_string();
            let reason = told.split(" (os error").next().unwrap_or(&told);
            format!("{call}() \"{path}\" failed ({number}: {reason})")
        }
        None if why.kind() == io::ErrorKind::FileTooLarge => {
            format!("\"{path}\" is too long: at most {TEXT_MAX} bytes are read in all")
        }
        None => format!("open() \"{path}\" failed ({why})"),
    }
}

#[cfg(test)]
mod tests;
