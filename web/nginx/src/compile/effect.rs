//! What each directive comes to, by its class.

use super::arguments::{argument, inside};
use super::classes::{self, DirectiveClass};
use super::layer::Layer;
use super::process::ProcessRules;
use super::{Compiler, Remark, Step};
use crate::message::Place;
use crate::reader::Directive;
use features::DirectiveEffect;

impl Compiler<'_> {
    /// Takes a directive of a block.
    pub(super) fn set(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        if !self.has_effect(directive)? {
            return Ok(());
        }
        let Some(rule) = directive.rule else { return Ok(()) };
        match (rule.row.map(|row| row.effect), classes::setter(rule.name)) {
            (Some(DirectiveEffect::Sets(setter)), _) => self.set_feature(layer, directive, (rule.name, setter)),
            (None, Some(setter)) => setter(self, layer, directive),
            // It, or its block, is taken elsewhere.
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// Takes a directive of the process.
    pub(super) fn process(&mut self, rules: &mut ProcessRules, directive: &Directive) -> Step {
        if !self.has_effect(directive)? {
            return Ok(());
        }
        for one in inside(directive) {
            let taken = self.process(rules, one);
            self.note(taken);
        }
        self.process_rule(rules, directive)
    }

    /// Whether a directive is compiled; a remark if it has no effect here.
    ///
    /// # Errors
    /// It is refused.
    pub(super) fn has_effect(&mut self, directive: &Directive) -> Step<bool> {
        let Some(rule) = directive.rule else { return Ok(false) };
        match classes::class(rule) {
            DirectiveClass::Compiled => Ok(true),
            DirectiveClass::Idle(why) => {
                self.remark(rule.name, directive.place, why);
                Ok(false)
            }
            DirectiveClass::Offered(why) => {
                if !argument(directive, 0).eq_ignore_ascii_case(b"off") {
                    self.warn(directive.place, format!("\"{}\" directive has no effect here: {why}", rule.name));
                }
                Ok(false)
            }
            DirectiveClass::Obsolete(instead) => {
                let instead = match instead {
                    Some(name) => format!("use the \"{name}\" directive instead"),
                    None => "ignored".to_owned(),
                };
                self.warn(directive.place, format!("the \"{}\" directive is obsolete, {instead}", rule.name));
                Ok(false)
            }
            DirectiveClass::Refused(why) => {
                Err(self.unsupported(directive.place, &format!("\"{}\" directive: {why}", rule.name)))
            }
            DirectiveClass::RefusedUnless(word, _) if argument(directive, 0).eq_ignore_ascii_case(word.as_bytes()) => {
                Ok(false)
            }
            DirectiveClass::RefusedUnless(word, why) => {
                let what = format!("\"{}\" directive with another value than \"{word}\": {why}", rule.name);
                Err(self.unsupported(directive.place, &what))
            }
        }
    }

    pub(super) fn remark(&mut self, name: &'static str, place: Place, why: &'static str) {
        self.notes.push(Remark { name, place, why });
    }
}
