//! What a feature says of itself, as rows: its directives, and the variables that it brings.

use crate::compiling::{BlockCompiling, Compiling};
use crate::reach::Reach;
use crate::rule::{Arguments, Context, ValueForm};
use crate::units::number;
use crate::value::Value;
use crate::view::RequestView;
use crate::{Declared, FeatureSettings};

/// A directive: what it is called, where it may stand, and what it does.
#[derive(Clone, Copy, Debug)]
pub struct DirectiveRow {
    /// Its name.
    pub name: &'static str,
    /// The module that has it, by nginx's name for it.
    pub module: &'static str,
    /// Where it may stand.
    pub contexts: Context,
    /// How many arguments it takes.
    pub arguments: Arguments,
    /// The form of its value.
    pub form: ValueForm,
    /// What it does.
    pub effect: DirectiveEffect,
    /// What shows its value: lines as the head of `web/nginx/src/probes.txt` has them; or,
    /// behind `- `, why no request does. Empty where nothing is inherited.
    pub shown: &'static str,
}

/// What a directive does.
#[derive(Clone, Copy, Debug)]
pub enum DirectiveEffect {
    /// It changes the settings of the block that it stands in.
    Sets(Setter),
    /// It is read before blocks are, which name what it declares.
    Declares(Declaration),
    /// It is taken, and has no effect here, for this reason.
    Idle(&'static str),
    /// It is obsolete, and ignored: that is warned of, with what stands in its place.
    Obsolete(Option<&'static str>),
    /// It is refused, for this reason.
    Refused(&'static str),
    /// It is refused, unless its value is this word, for this reason.
    RefusedUnless(&'static str, &'static str),
}

/// Takes a directive into the settings of its block, which are those of the block outside
/// until then.
///
/// # Errors
/// What is wrong with it.
pub type Setter = fn(&mut FeatureSettings, &mut Words<'_>) -> Result<(), Refusal>;

/// Takes a directive that declares something, from the words behind its name.
///
/// # Errors
/// What is wrong with it, in nginx's words.
pub type Declaration = fn(&mut Declared, &[&[u8]], &mut dyn Compiling) -> Result<(), String>;

/// Why a directive is refused, in nginx's words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// This text.
    Text(String),
    /// `"NAME" directive`, and this text.
    OfDirective(&'static str),
    /// This text, which nginx finds when all is read, at no place.
    Nowhere(String),
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// The words behind a directive's name.
#[allow(missing_debug_implementations, reason = "who compiles tells nothing of itself")]
pub struct Words<'a> {
    /// The directive's name.
    pub name: &'static str,
    /// The words.
    pub words: &'a [&'a [u8]],
    /// Who compiles.
    pub compiling: &'a mut dyn BlockCompiling,
}

impl<'a> Words<'a> {
    /// A word; nothing if there is none.
    #[must_use]
    pub fn word(&self, at: usize) -> &'a [u8] {
        self.words.get(at).copied().unwrap_or_default()
    }

    /// `on`, of a value that is that or `off`.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.word(0).eq_ignore_ascii_case(b"on")
    }

    /// Takes `on` or `off` into a place.
    ///
    /// # Errors
    /// None: the reader has found it to be one of them.
    pub fn flag(&self, place: &mut bool) -> Result<(), Refusal> {
        *place = self.is_on();
        Ok(())
    }

    /// A number, of a value that the reader has found to be one.
    #[must_use]
    pub fn number(&self) -> u64 {
        number(self.word(0)).unwrap_or_default()
    }

    /// A word as text with variables.
    ///
    /// # Errors
    /// It is none.
    pub fn value(&mut self, at: usize) -> Result<Value, Refusal> {
        Ok(self.compiling.value(self.word(at))?)
    }

    /// Notes that the block has this directive; whether it is the first of its name there,
    /// where lists of the block outside do not count.
    pub fn is_first(&mut self) -> bool {
        self.compiling.is_first(self.name)
    }
}

impl DirectiveRow {
    const fn of(module: &'static str, name: &'static str, form: ValueForm, effect: DirectiveEffect) -> Self {
        let (contexts, arguments) = (Context::PLACES, Arguments::exactly(1));
        Self { name, module, contexts, arguments, form, effect, shown: "" }
    }

    /// A directive of `module` that changes settings: in each place, with one argument, where
    /// nothing else is said.
    #[must_use]
    pub const fn new(module: &'static str, name: &'static str, form: ValueForm, setter: Setter) -> Self {
        Self::of(module, name, form, DirectiveEffect::Sets(setter))
    }

    /// One that is read before blocks are.
    #[must_use]
    pub const fn declaring(
        module: &'static str,
        name: &'static str,
        arguments: Arguments,
        declares: Declaration,
    ) -> Self {
        let row = Self::of(module, name, ValueForm::Own, DirectiveEffect::Declares(declares));
        Self { contexts: Context::HTTP, arguments, ..row }
    }

    /// One without an effect, for a reason.
    #[must_use]
    pub const fn idle(module: &'static str, name: &'static str, form: ValueForm, why: &'static str) -> Self {
        Self::of(module, name, form, DirectiveEffect::Idle(why))
    }

    /// One that is obsolete, and what stands in its place.
    #[must_use]
    pub const fn obsolete(module: &'static str, name: &'static str, instead: Option<&'static str>) -> Self {
        Self::of(module, name, ValueForm::Own, DirectiveEffect::Obsolete(instead))
    }

    /// One that is refused for a reason.
    #[must_use]
    pub const fn refused(module: &'static str, name: &'static str, form: ValueForm, why: &'static str) -> Self {
        Self::of(module, name, form, DirectiveEffect::Refused(why))
    }

    /// One that is refused for a reason, unless its value is this word.
    #[must_use]
    pub const fn refused_unless(
        module: &'static str,
        name: &'static str,
        form: ValueForm,
        (word, why): (&'static str, &'static str),
    ) -> Self {
        Self::of(module, name, form, DirectiveEffect::RefusedUnless(word, why))
    }

    /// The same, where it may stand.
    #[must_use]
    pub const fn within(self, contexts: Context) -> Self {
        Self { contexts, ..self }
    }

    /// The same, with so many arguments.
    #[must_use]
    pub const fn taking(self, arguments: Arguments) -> Self {
        Self { arguments, ..self }
    }

    /// The same, with what shows its value.
    #[must_use]
    pub const fn shown(self, shown: &'static str) -> Self {
        Self { shown, ..self }
    }
}

/// A variable that a feature brings.
#[derive(Clone, Copy, Debug)]
pub struct VariableRow {
    /// Its name, without `$`.
    pub name: &'static str,
    /// For which requests it stands for the same.
    pub reach: Reach,
    /// It is what it was when it was first asked for.
    pub lasts: bool,
    /// Writes what it stands for in a place with these settings; whether it stands for
    /// anything.
    pub write: fn(&FeatureSettings, &mut dyn RequestView, &mut Vec<u8>) -> bool,
}

/// Two are the same if their names are.
impl PartialEq for VariableRow {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for VariableRow {}
