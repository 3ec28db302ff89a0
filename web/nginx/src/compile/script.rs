//! `set`, `rewrite`, `if`, `return` and `break`: instructions with jumps.

use super::arguments::{argument, inside, told};
use super::layer::{Layer, Scope};
use super::{Compiler, Step};
use crate::message::Place;
use crate::reader::Directive;
use configuration::script::{Condition, FileTest, Instruction, RewriteFlag};
use features::Value;
use features::units::number;
use std::sync::Arc;

/// A value that begins so is another server's address.
fn is_address(text: &[u8]) -> bool {
    [&b"http://"[..], b"https://", b"$scheme"].iter().any(|start| text.starts_with(start))
}

impl Compiler<'_> {
    /// The script of a server or a location.
    pub(super) fn script(&mut self, layer: &Layer, directives: &[Directive]) -> Step<Arc<[Instruction]>> {
        let mut script = Vec::new();
        self.instructions(layer, directives, &mut script)?;
        Ok(script.into())
    }

    fn instructions(&mut self, layer: &Layer, directives: &[Directive], script: &mut Vec<Instruction>) -> Step {
        for directive in directives {
            match directive.name.as_slice() {
                b"set" => script.push(self.assignment(directive)?),
                b"rewrite" => script.push(self.rewrite(directive)?),
                b"return" => script.push(self.give_back(directive)?),
                b"break" => script.push(Instruction::Break),
                b"if" => {
                    let condition = self.condition(directive)?;
                    let in_location = matches!(layer.scope, Scope::Location(_));
                    let settings = in_location.then(|| self.if_block(layer, directive)).transpose()?;
                    let at = script.len();
                    script.push(Instruction::If { condition, otherwise: 0, settings });
                    self.instructions(layer, inside(directive), script)?;
                    let end = script.len() as u32;
                    if let Instruction::If { otherwise, .. } = &mut script[at] {
                        *otherwise = end;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn assignment(&mut self, directive: &Directive) -> Step<Instruction> {
        let place = directive.place;
        let Some(name) = argument(directive, 0).strip_prefix(b"$") else {
            let what = format!("invalid variable name \"{}\"", told(argument(directive, 0)));
            return Err(self.refused(place, what));
        };
        if name.is_empty() {
            return Err(self.refused(place, "invalid variable name \"$\"".to_owned()));
        }
        let target = self.program.variables.assigned(&name.to_ascii_lowercase());
        let target = target.map_err(|why| self.variable_error(place, &why))?;
        Ok(Instruction::Set { target, value: self.value(argument(directive, 1), place)? })
    }

    fn rewrite(&mut self, directive: &Directive) -> Step<Instruction> {
        let place = directive.place;
        let text = argument(directive, 1);
        if text.is_empty() {
            return Err(self.refused(place, "empty replacement".to_owned()));
        }
        let expression = self.expression(argument(directive, 0), false, place)?;
        let (text, keeps_query) = match text.strip_suffix(b"?") {
            Some(text) => (text, false),
            None => (text, true),
        };
        let elsewhere = is_address(text);
        let then = match (argument(directive, 2), elsewhere) {
            (b"permanent", _) => RewriteFlag::Redirect(301),
            (b"redirect", _) | (b"" | b"last" | b"break", true) => RewriteFlag::Redirect(302),
            (b"last", false) => RewriteFlag::Last,
            (b"break", false) => RewriteFlag::Break,
            (b"", false) if directive.arguments.len() == 2 => RewriteFlag::Next,
            (other, _) => return Err(self.refused(place, format!("invalid parameter \"{}\"", told(other)))),
        };
        let (path, query) = match text.iter().position(|byte| *byte == b'?') {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let replacement = self.value(path, place)?;
        let arguments = query.filter(|query| !query.is_empty()).map(|query| self.value(query, place)).transpose()?;
        Ok(Instruction::Rewrite { expression, replacement, arguments, keeps_query, then })
    }

    fn give_back(&mut self, directive: &Directive) -> Step<Instruction> {
        /// The largest status that nginx takes.
        const MOST: u64 = 999;
        let place = directive.place;
        let first = argument(directive, 0);
        let (status, text) = match (number(first), directive.arguments.get(1)) {
            (Ok(status), text) if status <= MOST => (status as u16, text.map(Vec::as_slice)),
            (Err(_), None) if is_address(first) => (302, Some(first)),
            _ => return Err(self.refused(place, format!("invalid return code \"{}\"", told(first)))),
        };
        // Without a word, an error is nginx's page.
        let text = text.filter(|text| !text.is_empty() || status < 400);
        Ok(Instruction::Return { status, text: text.map(|text| self.value(text, place)).transpose()? })
    }

    fn condition(&mut self, directive: &Directive) -> Step<Condition> {
        let place = directive.place;
        let invalid = |word: &[u8]| format!("invalid condition \"{}\"", told(word));
        let words: Vec<&[u8]> = directive.arguments.iter().map(Vec::as_slice).collect();
        let words = match bare(&words) {
            Ok(words) => words,
            Err(word) => return Err(self.refused(place, invalid(word))),
        };
        match words.as_slice() {
            [variable] if is_variable(variable) => Ok(Condition::True(self.variable(variable, place)?)),
            [variable, operator, right] if is_variable(variable) => {
                let left = self.variable(variable, place)?;
                let negated = operator.starts_with(b"!");
                match *operator {
                    b"=" | b"!=" => Ok(Condition::Equal { left, right: self.value(right, place)?, negated }),
                    b"~" | b"~*" | b"!~" | b"!~*" => {
                        let expression = self.expression(right, operator.ends_with(b"*"), place)?;
                        Ok(Condition::Matches { left, expression, negated })
                    }
                    _ => Err(self.refused(place, format!("unexpected \"{}\" in condition", told(operator)))),
                }
            }
            [operator, path] if !is_variable(operator) => {
                let (negated, letter) = match operator {
                    [b'!', b'-', letter] => (true, letter),
                    [b'-', letter] => (false, letter),
                    _ => return Err(self.refused(place, invalid(operator))),
                };
                let path = self.value(path, place)?;
                let test = match letter {
                    b'f' => FileTest::File,
                    b'd' => FileTest::Directory,
                    b'e' => FileTest::Exists,
                    b'x' => FileTest::Executable,
                    _ => return Err(self.refused(place, invalid(operator))),
                };
                Ok(Condition::File { path, test, negated })
            }
            words => Err(self.refused(place, invalid(words.first().copied().unwrap_or_default()))),
        }
    }

    /// A variable alone: its whole name is what follows the `$`.
    fn variable(&mut self, word: &[u8], place: Place) -> Step<Value> {
        let name = word[1..].to_ascii_lowercase();
        let is_plain = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        if is_plain && !name[0].is_ascii_digit() {
            return self.value(word, place);
        }
        // No variable has such a name: told when all are known.
        let number = self.program.variables.reserve(&name);
        number.map_err(|why| self.variable_error(place, &why))?;
        Ok(Value::literal(b""))
    }
}

fn is_variable(word: &[u8]) -> bool {
    word.len() > 1 && word[0] == b'$'
}

/// The words of a condition without its brackets, which may stand apart or not.
///
/// # Errors
/// The word that has none.
fn bare<'w>(words: &[&'w [u8]]) -> Result<Vec<&'w [u8]>, &'w [u8]> {
    let mut words = words.to_vec();
    let first = words.first().copied().unwrap_or_default();
    let Some(rest) = first.strip_prefix(b"(") else { return Err(first) };
    match words.first_mut() {
        Some(word) if !rest.is_empty() => *word = rest,
        _ => _ = words.remove(0),
    }
    let last = words.last().copied().unwrap_or_default();
    let Some(rest) = last.strip_suffix(b")") else { return Err(last) };
    match words.last_mut() {
        Some(word) if !rest.is_empty() => *word = rest,
        _ => _ = words.pop(),
    }
    Ok(words)
}
