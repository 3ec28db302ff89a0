//! Scripts are run: what rewrites, sets, and asks.

use super::lookup::At;
use super::request_state::Phase;
use super::runner::{Flow, Runner};
use configuration::BlockId;
use configuration::script::{Condition, FileTest, Instruction, RewriteFlag, SetTarget};
use features::{Value, units};
use files::Unread;
use std::rc::Rc;

impl Runner<'_> {
    /// Runs the script of `block`, from where the request is in it.
    pub(super) fn script(&mut self, block: BlockId) -> Flow {
        let loaded = Rc::clone(&self.loaded);
        let Some(block) = loaded.program.block(block) else { return Flow::On };
        while let Some(instruction) = block.script.get(self.state.route.at as usize) {
            self.state.route.at += 1;
            match instruction {
                Instruction::Set { target, value } => self.set(*target, value),
                Instruction::Rewrite { expression, replacement, arguments, keeps_query, then } => {
                    match self.rewrite(*expression, (replacement, arguments.as_ref(), *keeps_query), *then) {
                        Some(Flow::On) => return Flow::On,
                        Some(flow) => return flow,
                        None => {}
                    }
                }
                Instruction::Return { status, text } => return self.answer_return(*status, text.as_ref()),
                Instruction::Break => {
                    self.state.route.rewritten.here |= self.state.route.uri_changed;
                    self.state.route.uri_changed = false;
                    return Flow::On;
                }
                Instruction::If { condition, otherwise, settings } => match self.holds(condition) {
                    Ok(true) => {
                        if let Some(settings) = settings {
                            self.state.route.block = *settings;
                            self.end_by_place(*settings);
                        }
                    }
                    Ok(false) => self.state.route.at = *otherwise,
                    Err(Flow::Waits(on)) => {
                        self.state.route.at -= 1;
                        return Flow::Waits(on);
                    }
                    Err(flow) => return flow,
                },
            }
        }
        Flow::On
    }

    fn set(&mut self, target: SetTarget, value: &Value) {
        let mut scope = self.scope();
        scope.escapes_captures = true;
        let value = scope.get(value);
        match target {
            SetTarget::Slot(slot) => {
                if let Some(place) = self.state.values.slots.get_mut(usize::from(slot)) {
                    *place = Some(value.into());
                }
            }
            SetTarget::Arguments => (self.state.route.args, self.state.route.rewritten.ever) = (value, true),
            // What is no size limits nothing, as for nginx.
            SetTarget::LimitRate => self.state.reply.limit_rate = units::size(&value).ok(),
        }
    }

    /// `rewrite`: nothing if the script goes on.
    fn rewrite(
        &mut self,
        expression: u32,
        (replacement, arguments, keeps_query): (&Value, Option<&Value>, bool),
        then: RewriteFlag,
    ) -> Option<Flow> {
        let uri = core::mem::take(&mut self.state.route.uri);
        let matched = self.scope().matches(expression, &uri);
        self.state.route.uri = uri;
        match matched {
            None => return Some(Flow::Status(500)),
            // As for nginx, which forgets the groups of what matched before.
            Some(false) => {
                self.state.route.captures.clear();
                return None;
            }
            // What follows was not asked for by the client.
            Some(true) => self.state.route.internal = true,
        }
        let redirects = matches!(then, RewriteFlag::Redirect(_));
        let mut scope = self.scope();
        scope.escapes_captures = redirects;
        let mut path = scope.get(replacement);
        scope.escapes_captures = true;
        let mut query = arguments.map(|arguments| scope.get(arguments));
        if keeps_query && !self.state.route.args.is_empty() {
            self.state.reuse.depends.on(super::request_state::Depends::QUERY);
            let query = query.get_or_insert_default();
            if arguments.is_some() {
                query.push(b'&');
            }
            query.extend_from_slice(&self.state.route.args);
        }
        if let RewriteFlag::Redirect(status) = then {
            unescape_redirect(&mut path);
            if let Some(query) = query {
                path.push(b'?');
                path.extend_from_slice(&query);
            }
            self.state.sent.fields.clear();
            self.location = Some(path);
            return Some(Flow::Status(status));
        }
        if path.is_empty() {
            return Some(Flow::Status(500));
        }
        (self.state.route.uri, self.state.route.rewritten.ever) = (path, true);
        self.state.route.args = match query {
            Some(query) => query,
            None if keeps_query => core::mem::take(&mut self.state.route.args),
            None => Vec::new(),
        };
        match then {
            RewriteFlag::Break => {
                (self.state.route.uri_changed, self.state.route.rewritten.here) = (false, true);
                Some(Flow::On)
            }
            RewriteFlag::Last => {
                self.state.route.uri_changed = true;
                Some(Flow::On)
            }
            RewriteFlag::Next | RewriteFlag::Redirect(_) => {
                self.state.route.uri_changed = true;
                None
            }
        }
    }

    /// Whether a condition holds.
    fn holds(&mut self, condition: &Condition) -> Result<bool, Flow> {
        Ok(match condition {
            Condition::True(value) => self.scope().is_true(value),
            Condition::Equal { left, right, negated } => {
                let mut scope = self.scope();
                (scope.get(left) == scope.get(right)) != *negated
            }
            Condition::Matches { left, expression, negated } => {
                let mut scope = self.scope();
                let subject = scope.get(left);
                let matched = scope.matches(*expression, &subject).ok_or(Flow::Status(500))?;
                if !matched {
                    scope.state.route.captures.clear();
                }
                matched != *negated
            }
            Condition::File { path, test, negated } => {
                let path = self.scope().get(path);
                let found = self.look(&path)?;
                if matches!(found, At::Forbidden) {
                    self.tell_of_unreached(&path);
                }
                let holds = match (test, found) {
                    (FileTest::File, At::File(_)) | (FileTest::Directory, At::Directory) => true,
                    (FileTest::File, At::Unread(Unread::File { .. })) => true,
                    (FileTest::Directory, At::Unread(Unread::Directory)) => true,
                    // A pipe or a device is none of them.
                    (
                        FileTest::Exists,
                        At::File(_) | At::Directory | At::Unread(Unread::File { .. } | Unread::Directory),
                    ) => true,
                    (FileTest::Executable, At::File(file)) => file.executable,
                    (FileTest::Executable, At::Unread(Unread::File { executable })) => executable,
                    (FileTest::Executable, At::Directory | At::Unread(Unread::Directory)) => true,
                    _ => false,
                };
                holds != *negated
            }
        })
    }

    /// `return`.
    fn answer_return(&mut self, status: u16, text: Option<&Value>) -> Flow {
        if status == 444 {
            return Flow::HangUp;
        }
        if (text.is_some() || status < 400) && self.is_body_malformed() {
            return self.refuse_body();
        }
        if text.is_some() {
            // Which it may tell.
            self.state.sent.status = status;
        }
        let text = text.map(|text| self.scope().get(text));
        match text {
            Some(text) if matches!(status, 301 | 302 | 303 | 307 | 308) => {
                self.location = Some(text);
                Flow::Status(status)
            }
            None if status >= 400 => Flow::Status(status),
            Some(text) if status >= 400 && text.is_empty() => Flow::Status(status),
            text => {
                self.state.route.phase = Phase::Content;
                self.answer_text(status, text.unwrap_or_default())
            }
        }
    }
}

/// Decodes what a redirect may well say as it is: what is printable and behind `%`
/// in ASCII, up to the query (`NGX_UNESCAPE_REDIRECT` of nginx).
fn unescape_redirect(path: &mut Vec<u8>) {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let (mut out, mut rest) = (Vec::with_capacity(path.len()), path.as_slice());
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte == b'?' {
            out.push(b'?');
            out.extend_from_slice(after);
            break;
        }
        if let (b'%', [high, low, behind @ ..]) = (*byte, after)
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
            && let decoded = high << 4 | low
            && decoded > b'%'
            && decoded < 0x7f
        {
            out.push(decoded);
            rest = behind;
            continue;
        }
        out.push(*byte);
    }
    *path = out;
}

#[cfg(test)]
mod tests {
    use super::unescape_redirect;

    #[test]
    fn what_a_redirect_may_say_is_decoded() {
        for (text, expected) in
            [("/a%41%20b", "/aA%20b"), ("/%7e?%41", "/~?%41"), ("/%", "/%"), ("/%4", "/%4"), ("/%25%41", "/%25A")]
        {
            let mut path = text.as_bytes().to_vec();
            unescape_redirect(&mut path);
            assert_eq!(String::from_utf8_lossy(&path), expected, "{text}");
        }
    }
}
