//! The items of a source: functions, types, traits, and what of them is public.

use super::tokens::Token;
use std::collections::BTreeSet;
use std::ops::Range;

/// What a source declares, outside of functions.
#[derive(Debug, Default)]
pub struct Items {
    /// Functions and methods.
    pub functions: Vec<Signature>,
    /// The names of its structs, enums and unions.
    pub types: BTreeSet<String>,
    /// Fields of its structs and unions.
    pub fields: Vec<Field>,
    /// Variants of its enums.
    pub variants: Vec<Variant>,
    /// What it declares as `pub`; methods of traits that are `pub`, too.
    pub public: Vec<Public>,
    /// Of each token, whether it does not use what it names: names of what is declared, heads
    /// of `impl` blocks, `pub use`.
    pub declaring: Vec<bool>,
}

/// Where a function stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// In a module.
    Module,
    /// In an `impl` of a type, of its own or of a trait.
    Impl(String),
    /// In a trait's declaration.
    Trait(String),
}

/// A function or method.
#[derive(Debug)]
pub struct Signature {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// Whether it takes `self`.
    pub takes_self: bool,
    /// Its parameters, `self` left out.
    pub parameters: Vec<Parameter>,
    /// The types that it takes by `&mut`, however deep.
    pub exclusive: BTreeSet<String>,
    /// All words of its parameters.
    pub words: BTreeSet<String>,
    /// Its body's tokens, braces included; empty if it has none.
    pub body: Range<usize>,
}

/// A parameter.
#[derive(PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Its name, if its pattern is one.
    pub name: Option<String>,
    /// Its type's name, behind references and boxes.
    pub kind: Option<String>,
}

/// A field of a type.
#[derive(PartialEq, Eq, Debug)]
pub struct Field {
    /// The type.
    pub owner: String,
    /// The field's name, or number.
    pub name: String,
    /// The name of its own type, behind references and boxes.
    pub kind: String,
}

/// A variant of an enum.
#[derive(PartialEq, Eq, Debug)]
pub struct Variant {
    /// The enum.
    pub owner: String,
    /// Its name.
    pub name: String,
}

/// Something public.
#[derive(PartialEq, Eq, Debug)]
pub struct Public {
    /// Its name.
    pub name: String,
    /// The type or trait whose it is.
    pub owner: Option<String>,
    /// Its line.
    pub line: usize,
}

impl Items {
    /// The items of a source by its tokens.
    #[must_use]
    pub fn read(tokens: &[Token<'_>]) -> Self {
        let items = Self { declaring: vec![false; tokens.len()], ..Self::default() };
        let mut parser = Parser { tokens, at: 0, items };
        parser.items(tokens.len(), &Place::Module, false);
        parser.items
    }
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    items: Items,
}

impl<'a> Parser<'a> {
    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    /// The place of the sign that closes the one here.
    fn closing(&self, at: usize) -> usize {
        closing(self.tokens, at)
    }

    /// Reads items up to `end`; all of a public trait are public.
    fn items(&mut self, end: usize, place: &Place, all_public: bool) {
        let mut public = false;
        while self.at < end {
            let is_public = core::mem::take(&mut public) || all_public;
            match self.text(self.at) {
                "#" => {
                    public = is_public;
                    let bracket = if self.text(self.at + 1) == "!" { self.at + 2 } else { self.at + 1 };
                    self.at = self.closing(bracket) + 1;
                }
                "pub" if self.text(self.at + 1) == "(" => self.at = self.closing(self.at + 1) + 1,
                "pub" => {
                    public = true;
                    self.at += 1;
                }
                "unsafe" | "async" | "auto" | "default" | "extern" | Token::LITERAL => {
                    public = is_public;
                    self.at += 1;
                }
                "const" if ["fn", "unsafe", "async", "extern"].contains(&self.text(self.at + 1)) => {
                    public = is_public;
                    self.at += 1;
                }
                "impl" => self.implementation(),
                "trait" => self.trait_of(is_public),
                "fn" => self.function(place, is_public),
                "struct" | "union" | "enum" => self.type_of(is_public),
                "const" | "static" | "type" => self.value(place, is_public),
                "use" => self.import(is_public),
                "mod" if self.text(self.at + 2) == "{" => {
                    self.at += 3;
                    let end = self.closing(self.at - 1);
                    self.items(end, &Place::Module, false);
                    self.at = end + 1;
                }
                "macro_rules" => {
                    self.is_declared(self.at + 2..self.at + 3);
                    self.at = self.closing(self.at + 3) + 1;
                }
                "{" => {
                    self.at += 1;
                }
                "(" | "[" => self.at = self.closing(self.at) + 1,
                _ => self.at += 1,
            }
        }
    }

    /// Notes that tokens declare something.
    fn is_declared(&mut self, places: Range<usize>) {
        if let Some(places) = self.items.declaring.get_mut(places) {
            places.fill(true);
        }
    }

    /// Notes what is declared by the name here.
    fn declare(&mut self, at: usize, owner: Option<&str>, is_public: bool) {
        self.is_declared(at..at + 1);
        if is_public {
            let (name, line) = (self.text(at).to_owned(), self.tokens[at].line);
            self.items.public.push(Public { name, owner: owner.map(str::to_owned), line });
        }
    }

    /// `impl … {`, of a type's own, or of a trait for a type.
    fn implementation(&mut self) {
        let start = self.at;
        let from = self.behind_generics(self.at + 1);
        let brace = self.find(from, &["{"]);
        let head = self.tokens.get(from..brace).unwrap_or_default();
        let head = &head[..position(head, "where").unwrap_or(head.len())];
        let of_trait = position(head, "for");
        let owner = type_name(head.get(of_trait.map_or(0, |at| at + 1)..).unwrap_or_default()).unwrap_or_default();
        self.is_declared(start..brace);
        self.at = brace + 1;
        let end = self.closing(brace);
        self.items(end, &Place::Impl(owner.to_owned()), false);
        self.at = end + 1;
    }

    fn trait_of(&mut self, is_public: bool) {
        let name = self.text(self.at + 1).to_owned();
        self.declare(self.at + 1, None, is_public);
        let brace = self.find(self.at + 2, &["{", ";"]);
        self.at = brace + 1;
        if self.text(brace) == "{" {
            let end = self.closing(brace);
            self.items(end, &Place::Trait(name), is_public);
            self.at = end + 1;
        }
    }

    fn function(&mut self, place: &Place, is_public: bool) {
        let name = self.text(self.at + 1).to_owned();
        let owner = match place {
            Place::Module => None,
            Place::Impl(owner) | Place::Trait(owner) => Some(owner.as_str()),
        };
        self.declare(self.at + 1, owner, is_public);
        let open = self.behind_generics(self.at + 2);
        let close = self.closing(open);
        let parameters = self.tokens.get(open + 1..close).unwrap_or_default();
        let exclusive = exclusive(parameters);
        let words = parameters.iter().filter(|token| token.is_word()).map(|token| token.text.to_owned()).collect();
        let mut parameters: Vec<&[Token<'_>]> = split(parameters);
        let takes_self = parameters.first().is_some_and(|first| {
            let named = position(first, ":").map_or(*first, |colon| &first[..colon]);
            named.iter().any(|token| token.text == "self")
        });
        if takes_self {
            parameters.remove(0);
        }
        let parameters = parameters.into_iter().filter_map(parameter).collect();
        let start = self.find(close + 1, &["{", ";"]);
        let end = if self.text(start) == "{" { self.closing(start) + 1 } else { start };
        let body = start..end;
        self.at = end.max(start + 1);
        let place = place.clone();
        self.items.functions.push(Signature { name, place, takes_self, parameters, exclusive, words, body });
    }

    fn type_of(&mut self, is_public: bool) {
        let is_enum = self.text(self.at) == "enum";
        let owner = self.text(self.at + 1).to_owned();
        self.declare(self.at + 1, None, is_public);
        let mut open = self.behind_generics(self.at + 2);
        if self.text(open) == "where" {
            open = self.find(open, &["{", ";"]);
        }
        self.at = open + 1;
        if ["{", "("].contains(&self.text(open)) {
            let close = self.closing(open);
            let parts = split(self.tokens.get(open + 1..close).unwrap_or_default());
            for (index, part) in parts.into_iter().map(without_attributes).enumerate() {
                if is_enum {
                    let name = part.first().map_or("", |token| token.text).to_owned();
                    self.items.variants.push(Variant { owner: owner.clone(), name });
                } else if let Some((name, kind)) = field(part, index) {
                    self.items.fields.push(Field { owner: owner.clone(), name, kind });
                }
            }
            self.at = close + 1;
        }
        self.items.types.insert(owner);
    }

    /// A constant, a static, or a type's other name.
    fn value(&mut self, place: &Place, is_public: bool) {
        let name = if self.text(self.at + 1) == "mut" { self.at + 2 } else { self.at + 1 };
        match place {
            Place::Module => self.declare(name, None, is_public),
            Place::Impl(owner) if self.text(self.at) == "const" => self.declare(name, Some(owner), is_public),
            _ => self.is_declared(name..name + 1),
        }
        self.at = self.find(self.at, &[";"]) + 1;
    }

    fn import(&mut self, is_public: bool) {
        let end = self.find(self.at, &[";"]);
        if is_public {
            self.is_declared(self.at..end);
        }
        self.at = end + 1;
    }

    /// The place behind generic parameters, if some begin here.
    fn behind_generics(&self, at: usize) -> usize {
        if self.text(at) != "<" {
            return at;
        }
        let mut depth = 0;
        for place in at..self.tokens.len() {
            match self.text(place) {
                "<" => depth += 1,
                ">" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return place + 1;
            }
        }
        self.tokens.len()
    }

    /// The next place of one of these, outside of what is in parentheses, brackets or braces.
    fn find(&self, from: usize, sought: &[&str]) -> usize {
        let mut at = from;
        while at < self.tokens.len() {
            let text = self.text(at);
            if sought.contains(&text) {
                return at;
            }
            at = if ["(", "[", "{"].contains(&text) { self.closing(at) + 1 } else { at + 1 };
        }
        self.tokens.len()
    }
}

/// The place of the sign that closes the one at `at`.
pub(super) fn closing(tokens: &[Token<'_>], at: usize) -> usize {
    let mut depth = 0;
    for (place, token) in tokens.iter().enumerate().skip(at) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth <= 0 {
            return place;
        }
    }
    tokens.len()
}

fn position(tokens: &[Token<'_>], text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            found if found == text && depth == 0 => return Some(at),
            "<" | "(" | "[" => depth += 1,
            ">" | ")" | "]" => depth -= 1,
            _ => {}
        }
    }
    None
}

/// What stands between commas.
fn split<'a>(tokens: &'a [Token<'a>]) -> Vec<&'a [Token<'a>]> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "<" | "(" | "[" | "{" => depth += 1,
            ">" | ")" | "]" | "}" => depth -= 1,
            "," if depth == 0 => {
                parts.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

fn without_attributes<'a>(mut tokens: &'a [Token<'a>]) -> &'a [Token<'a>] {
    while tokens.first().is_some_and(|token| token.text == "#") {
        tokens = tokens.get(closing(tokens, 1) + 1..).unwrap_or_default();
    }
    if tokens.first().is_some_and(|token| token.text == "pub") {
        let behind = if tokens.get(1).is_some_and(|token| token.text == "(") { closing(tokens, 1) + 1 } else { 1 };
        tokens = tokens.get(behind..).unwrap_or_default();
    }
    tokens
}

fn field(tokens: &[Token<'_>], index: usize) -> Option<(String, String)> {
    let (name, kind) = match tokens {
        [name, colon, kind @ ..] if colon.text == ":" => (name.text.to_owned(), kind),
        kind => (index.to_string(), kind),
    };
    Some((name, type_name(kind)?.to_owned()))
}

fn parameter(tokens: &[Token<'_>]) -> Option<Parameter> {
    let tokens = without_attributes(tokens);
    let colon = position(tokens, ":")?;
    let name = match &tokens[..colon] {
        [name] => Some(name),
        [word, name] if word.text == "mut" => Some(name),
        _ => None,
    };
    let name = name.filter(|name| name.is_word()).map(|name| name.text.to_owned());
    Some(Parameter { name, kind: type_name(&tokens[colon + 1..]).map(str::to_owned) })
}

/// A type's name, behind references and boxes: of `&'a mut crate::conn::More<T>` it is `More`.
pub(super) fn type_name<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    let is_before = |token: &&Token<'_>| token.text == "&" || token.text == "mut" || token.text.starts_with('\'');
    let before = tokens.iter().take_while(is_before).count();
    let mut rest = &tokens[before..];
    loop {
        match rest {
            [name, path, after @ ..] if path.text == "::" && name.is_word() => rest = after,
            [name, angle, inside @ ..] if angle.text == "<" && ["Box", "Rc", "Arc"].contains(&name.text) => {
                return type_name(inside);
            }
            [name, ..] if name.is_word() && !["impl", "dyn", "fn", "for", "unsafe"].contains(&name.text) => {
                return Some(name.text);
            }
            _ => return None,
        }
    }
}

/// The types behind each `&mut`.
fn exclusive(tokens: &[Token<'_>]) -> BTreeSet<String> {
    let references = (0..tokens.len()).filter(|at| tokens[*at].text == "&");
    let exclusive = references.filter_map(|at| {
        let behind = tokens.get(at + 1).filter(|token| token.text.starts_with('\'')).map_or(at + 1, |_| at + 2);
        tokens.get(behind).filter(|token| token.text == "mut")?;
        type_name(&tokens[behind + 1..])
    });
    exclusive.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::tokens::Tokens;

    fn items(text: &str) -> Items {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        Items::read(&Tokens::new(&lines).all())
    }

    #[test]
    fn functions_have_owners_and_parameters() {
        let text = "pub fn a<T: Fn(u8) -> u8>(mut b: &mut c::D<T>, (e, f): (&'a mut G, [u8; 2])) -> H where T: I { j() }\n\
                    impl<T> K<T> where T: L { const M: u8 = { 1 }; pub(crate) const fn n(&mut self, o: Box<Self>) {} }\n\
                    impl<'a> p::Q for &'a mut R<'a> { fn s(self: Box<Self>); }\n\
                    pub trait U: V { fn w(&self) -> u8 { 1 } fn x(); }\n";
        let items = items(text);
        let [a, n, s, w, x] = items.functions.as_slice() else { panic!("{items:?}") };
        assert_eq!((a.name.as_str(), &a.place, a.takes_self), ("a", &Place::Module, false));
        assert_eq!(a.parameters[0], Parameter { name: Some("b".into()), kind: Some("D".into()) });
        assert_eq!(a.parameters[1].name, None);
        assert_eq!(a.exclusive.iter().collect::<Vec<_>>(), ["D", "G"]);
        assert_eq!(a.body.len(), 5);
        assert_eq!((n.name.as_str(), &n.place, n.takes_self), ("n", &Place::Impl("K".into()), true));
        assert_eq!(n.parameters[0].kind.as_deref(), Some("Self"));
        assert_eq!((&s.place, s.takes_self, s.body.len()), (&Place::Impl("R".into()), true, 0));
        assert_eq!((&w.place, w.takes_self, x.takes_self), (&Place::Trait("U".into()), true, false));
        let public: Vec<_> = items.public.iter().map(|public| public.name.as_str()).collect();
        assert_eq!(public, ["a", "U", "w", "x"]);
    }

    #[test]
    fn types_have_fields_and_variants() {
        let text = "pub struct A<T>(pub Box<B<T>>, C);\nstruct D<'a> {\n    #[e(f)]\n    pub(crate) g: &'a mut h::I,\n    j: K<L, M>,\n}\n\
                    pub enum N { O, P { q: R }, S(T) = 1 }\npub use u::V;\nmod w { pub const X: u8 = 1; }\nmacro_rules! y { () => {} }\n";
        let items = items(text);
        let fields: Vec<_> =
            items.fields.iter().map(|f| (f.owner.as_str(), f.name.as_str(), f.kind.as_str())).collect();
        assert_eq!(fields, [("A", "0", "B"), ("A", "1", "C"), ("D", "g", "I"), ("D", "j", "K")]);
        assert_eq!(items.variants.iter().map(|v| v.name.as_str()).collect::<Vec<_>>(), ["O", "P", "S"]);
        assert_eq!(
            items.public.iter().map(|p| (p.name.as_str(), p.line)).collect::<Vec<_>>(),
            [("A", 1), ("N", 7), ("X", 9)]
        );
    }
}
