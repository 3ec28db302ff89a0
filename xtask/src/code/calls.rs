//! Who calls whom with a value of a type of the crate in hand.
//!
//! A file calls another where it calls, with a value of a type of the same crate:
//!
//! - a method of that type, in an `impl` that stands in the other: `self.f()`, `Self::f`, and
//!   `x.f()` or `self.x.f()` where `x` is a parameter, a variable or a field whose type is
//!   written down;
//! - a function that stands in the other and takes a type of the crate by `&mut`.
//!
//! Methods that stand in the calling file itself, too, are taken to be meant. What a type is
//! that is written nowhere (a closure's parameter, a method's result) is not known here.

use super::Code;
use super::items::{Items, Place, Signature, closing, type_name};
use super::tokens::Token;
use std::collections::{BTreeMap, BTreeSet};

/// A call from one file to another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Call {
    /// The place of the file that calls.
    pub from: usize,
    /// The place of the file that is called.
    pub to: usize,
    /// The function, by its type's name if it is a method.
    pub name: String,
}

/// A file of a crate.
#[derive(Debug)]
pub struct File<'a> {
    /// Its path.
    pub path: &'a str,
    items: &'a Items,
    tokens: Vec<Token<'a>>,
}

impl<'a> File<'a> {
    /// At this path, with this code.
    #[must_use]
    pub fn new(path: &'a str, code: &'a Code) -> Self {
        Self { path, items: &code.items, tokens: code.tokens() }
    }
}

/// A crate's files, and what can be called in them.
#[derive(Debug)]
pub struct CallGraph<'a> {
    files: &'a [File<'a>],
    types: BTreeSet<&'a str>,
    /// The files in which methods of a type stand, by type and name; and whether they take `self`.
    methods: BTreeMap<(&'a str, &'a str), (BTreeSet<usize>, bool)>,
    /// The types of fields.
    fields: BTreeMap<(&'a str, &'a str), &'a str>,
    /// The files in which functions stand that take a type of the crate by `&mut`, by their names.
    functions: BTreeMap<&'a str, BTreeSet<usize>>,
}

/// Which type a name is of, within a function.
type Names<'a> = BTreeMap<&'a str, &'a str>;

impl<'a> CallGraph<'a> {
    /// Of these files.
    #[must_use]
    pub fn new(files: &'a [File<'a>]) -> Self {
        let mut graph = Self {
            files,
            types: files.iter().flat_map(|file| &file.items.types).map(String::as_str).collect(),
            methods: BTreeMap::new(),
            fields: BTreeMap::new(),
            functions: BTreeMap::new(),
        };
        for (file, File { items, .. }) in files.iter().enumerate() {
            for field in &items.fields {
                graph.fields.insert((&field.owner, &field.name), &field.kind);
            }
            for function in &items.functions {
                graph.add(file, function);
            }
        }
        graph
    }

    fn add(&mut self, file: usize, function: &'a Signature) {
        match &function.place {
            Place::Impl(owner) if self.types.contains(owner.as_str()) => {
                let (files, takes_self) = self.methods.entry((owner, &function.name)).or_default();
                files.insert(file);
                *takes_self |= function.takes_self;
            }
            Place::Module if function.exclusive.iter().any(|kind| self.types.contains(kind.as_str())) => {
                self.functions.entry(&function.name).or_default().insert(file);
            }
            Place::Impl(_) | Place::Module | Place::Trait(_) => {}
        }
    }

    /// All calls from file to file.
    #[must_use]
    pub fn calls(&self) -> BTreeSet<Call> {
        let mut found = BTreeSet::new();
        for (file, File { items, .. }) in self.files.iter().enumerate() {
            for function in &items.functions {
                self.calls_of(file, function, &mut found);
            }
        }
        found
    }

    fn calls_of(&self, file: usize, function: &'a Signature, found: &mut BTreeSet<Call>) {
        let tokens = &self.files[file].tokens;
        let owner = match &function.place {
            Place::Impl(owner) => Some(owner.as_str()),
            Place::Module | Place::Trait(_) => None,
        };
        let mut names: Names<'a> = owner.map(|owner| ("self", owner)).into_iter().collect();
        for parameter in &function.parameters {
            if let (Some(name), Some(kind)) = (&parameter.name, &parameter.kind) {
                names.insert(name, if kind == "Self" { owner.unwrap_or_default() } else { kind });
            }
        }
        for at in function.body.clone() {
            let called = match tokens[at].text {
                "let" => {
                    self.bind(&tokens[at + 1..function.body.end], owner, &mut names);
                    continue;
                }
                _ if tokens[at].is_word() => self.called(tokens, at, owner, &names),
                _ => continue,
            };
            let Some((name, files)) = called else { continue };
            if !files.contains(&file) {
                found.extend(files.iter().map(|to| Call { from: file, to: *to, name: name.clone() }));
            }
        }
    }

    /// What the word here calls, and the files in which it may stand.
    fn called(
        &self,
        tokens: &[Token<'a>],
        at: usize,
        owner: Option<&'a str>,
        names: &Names<'a>,
    ) -> Option<(String, &BTreeSet<usize>)> {
        let name = tokens[at].text;
        let before = |back: usize| at.checked_sub(back).map_or("", |at| tokens[at].text);
        match before(1) {
            "." => {
                let kind = self.kind(&chain(&tokens[..at - 1])?, names)?;
                let (files, _) = self.methods.get(&(kind, name)).filter(|_| is_called(&tokens[at + 1..]))?;
                Some((format!("{kind}::{name}"), files))
            }
            "::" => {
                let qualifier = if before(2) == "Self" { owner? } else { before(2) };
                if let Some((files, takes_self)) = self.methods.get(&(qualifier, name)) {
                    return (*takes_self || owner == Some(qualifier)).then(|| (format!("{qualifier}::{name}"), files));
                }
                let files = self.functions.get(name).filter(|_| is_called(&tokens[at + 1..]))?;
                let is_meant = files.iter().any(|file| stem(self.files[*file].path) == qualifier);
                is_meant.then(|| (name.to_owned(), files))
            }
            "fn" => None,
            _ => {
                let files = self.functions.get(name).filter(|_| is_called(&tokens[at + 1..]))?;
                Some((name.to_owned(), files))
            }
        }
    }

    /// The type of `a.b.c`.
    fn kind(&self, chain: &[&'a str], names: &Names<'a>) -> Option<&'a str> {
        let (first, rest) = chain.split_first()?;
        let mut kind = *names.get(first)?;
        for field in rest {
            kind = self.fields.get(&(kind, *field))?;
        }
        Some(kind)
    }

    /// What a `let` says of types: `x = &mut a.b`, `x: T = …`, `Self { x, … } = a.b`.
    fn bind(&self, tokens: &[Token<'a>], owner: Option<&'a str>, names: &mut Names<'a>) {
        let mutable = usize::from(tokens.first().is_some_and(|token| token.text == "mut"));
        let tokens = &tokens[mutable..];
        match tokens {
            [name, colon, kind @ ..] if colon.text == ":" && name.is_word() => {
                match type_name(kind) {
                    Some("Self") => owner.and_then(|owner| names.insert(name.text, owner)),
                    Some(kind) => names.insert(name.text, kind),
                    None => names.remove(name.text),
                };
            }
            [name, equal, value @ ..] if equal.text == "=" && name.is_word() => {
                match self.value(value, names) {
                    Some(kind) => names.insert(name.text, kind),
                    None => names.remove(name.text),
                };
            }
            [kind, brace, ..] if brace.text == "{" && kind.is_word() => {
                let close = closing(tokens, 1);
                let kind = if kind.text == "Self" { owner.unwrap_or_default() } else { kind.text };
                for name in tokens.get(2..close).unwrap_or_default().iter().filter(|token| token.is_word()) {
                    if let Some(kind) = self.fields.get(&(kind, name.text)) {
                        names.insert(name.text, kind);
                    }
                }
            }
            _ => {}
        }
    }

    /// The type of a `let`'s value that is nothing but `&mut a.b`.
    fn value(&self, tokens: &[Token<'a>], names: &Names<'a>) -> Option<&'a str> {
        let end = tokens.iter().position(|token| [";", "else"].contains(&token.text))?;
        let before = tokens.iter().take_while(|token| ["&", "mut", "*"].contains(&token.text)).count();
        let value = tokens.get(before..end)?;
        let chain = chain(value)?;
        (2 * chain.len() == value.len() + 1).then(|| self.kind(&chain, names))?
    }
}

/// The names of `a.b.c` at the end of these tokens; none where one of them is no name.
fn chain<'a>(tokens: &[Token<'a>]) -> Option<Vec<&'a str>> {
    let mut names = Vec::new();
    let mut end = tokens.len();
    loop {
        let name = tokens.get(end.checked_sub(1)?)?.text;
        if !name.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            return None;
        }
        names.push(name);
        match end.checked_sub(2).map(|at| tokens[at].text) {
            Some(".") => end -= 2,
            Some("::") => return None,
            _ => break,
        }
    }
    names.reverse();
    Some(names)
}

/// Whether what stands before these tokens is called by them: `(`, or `::<T>(`.
fn is_called(behind: &[Token<'_>]) -> bool {
    match behind {
        [paren, ..] if paren.text == "(" => true,
        [path, angle, ..] => path.text == "::" && angle.text == "<",
        _ => false,
    }
}

/// The name of a file's module.
fn stem(path: &str) -> &str {
    let path = path.strip_suffix("/mod.rs").or(path.strip_suffix(".rs")).unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    /// The calls of these files, as `from to name`.
    fn calls(texts: &[&str]) -> Vec<String> {
        let paths = ["a/src/lib.rs", "a/src/one.rs", "a/src/two.rs"];
        let sources: Vec<_> = paths.iter().zip(texts).map(|(path, text)| Source::new(path, text)).collect();
        let files: Vec<_> = sources.iter().map(|source| File::new(&source.path, source.code())).collect();
        let calls = CallGraph::new(&files).calls();
        calls.iter().map(|call| format!("{} {} {}", call.from, call.to, call.name)).collect()
    }

    const TYPES: &str = "pub struct A<T> { b: Box<B>, t: T, c: u8 }\npub struct B { n: u8 }\n";

    #[test]
    fn methods_are_found_by_what_they_are_called_on() {
        let one = "impl<T> A<T> { fn f(&mut self) {} fn new() -> Self {} }\nimpl B { fn g(&self) {} }\n\
                   impl Len for Vec<u8> { fn len(&self) {} }\n";
        for (caller, expected) in [
            ("impl<T> A<T> { fn h(&self) { self.f() } }", &["2 1 A::f"][..]),
            ("impl<T> A<T> { fn h(&self) { self.f::<u8>() } }", &["2 1 A::f"]),
            ("impl<T> A<T> { fn h(&self) { x.map(Self::f) } }", &["2 1 A::f"]),
            ("impl<T> A<T> { fn h(&self) { self.b.g() } }", &["2 1 B::g"]),
            ("impl<T> A<T> { fn h(&self) { let b = &mut self.b; b.g() } }", &["2 1 B::g"]),
            ("impl<T> A<T> { fn h(&self) { let Self { b, .. } = self; b.g() } }", &["2 1 B::g"]),
            ("impl<T> A<T> { fn h() { Self::new() } }", &["2 1 A::new"]),
            ("impl C<u8> for A<u8> { fn h(&mut self) { self.f() } }", &["2 1 A::f"]),
            ("fn h(a: &mut crate::A<u8>) { a.f() }", &["2 1 A::f"]),
            ("fn h(a: &A<u8>) { A::f(a) }", &["2 1 A::f"]),
            ("fn h() { let a: A<u8> = k(); a.f() }", &["2 1 A::f"]),
            // Nothing is in hand, or what that is, is not known, or there is another of its own.
            ("fn h() { A::new() }", &[]),
            // A trait of the crate for a type of another, which has a method of that name itself.
            ("fn h(v: &Vec<u8>) { v.len() }", &[]),
            ("fn h(a: X) { a.f(); k().f(); x[1].f(); self.f }", &[]),
            ("fn h(a: &A<u8>) { let a = k(); a.f() }", &[]),
            ("impl<T> A<T> { fn h(&self) { self.f() } fn f(&self) {} }", &[]),
        ] {
            assert_eq!(calls(&[TYPES, one, caller]), expected, "{caller}");
        }
    }

    #[test]
    fn functions_count_that_take_a_type_of_the_crate_by_mut() {
        let one = "pub(crate) fn f(x: (&mut B, u8)) {}\nfn g(b: &B) {}\nfn h(b: &mut Vec<u8>) {}\n";
        for (caller, expected) in [
            ("fn k(b: &mut B) { f((b, 1)) }", &["2 1 f"][..]),
            ("fn k(b: &mut B) { crate::one::f((b, 1)) }", &["2 1 f"]),
            ("fn k(b: &mut B) { other::f(b); x.f(b); g(b); h(b) }", &[]),
            ("fn k(b: &mut B) { f(b) } fn f(b: &mut B) {}", &[]),
        ] {
            assert_eq!(calls(&[TYPES, one, caller]), expected, "{caller}");
        }
    }
}
