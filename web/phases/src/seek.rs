//! Films from a time on: `mp4`, `flv`.

use super::answer::{Answer, AnswerBody};
use super::lookup::FileAt;
use super::request_state::Depends;
use super::runner::{Flow, Runner};
use super::waits::On;
use app::Body;
use configuration::program::Block;
use features::{ErrorLevel, SeekFormat};
use files::{Cutting, Excerpt};
use mp4::{Span, argument};

/// What a film begins with that goes on at a later tag: the head of a file with sound and
/// pictures, and a tag of no bytes before the first.
const FLV_HEAD: [u8; 13] = *b"FLV\x01\x05\0\0\0\x09\0\0\0\0";

impl Runner<'_> {
    /// Has an answer with a film be that from a time on which the query asks for.
    ///
    /// # Errors
    /// What comes in place of it.
    pub(super) fn seek(
        &mut self,
        block: &Block,
        (file, path): (FileAt, &[u8]),
        answer: &mut Answer,
    ) -> Result<(), Flow> {
        let Some(format) = block.features.seeking.format else { return Ok(()) };
        // What is ready for a request without a query is not for one with.
        self.state.reuse.depends.on(Depends::QUERY);
        if self.state.route.args.is_empty() {
            return Ok(());
        }
        let excerpt = match format {
            SeekFormat::Flv => flv(&self.state.route.args, file.size),
            SeekFormat::Mp4 => {
                let Some(span) = Span::asked(&self.state.route.args) else { return Ok(()) };
                answer.takes_one_range = true;
                self.cut_film(block, (file, path), span)?
            }
        };
        if let Some(excerpt) = excerpt {
            self.state.reuse.depends.on(Depends::OTHER);
            answer.body = AnswerBody::Excerpt(file, Box::new(excerpt));
        }
        Ok(())
    }

    /// What is sent of an mp4 for a span; none is all of it.
    fn cut_film(&mut self, block: &Block, (file, path): (FileAt, &[u8]), span: Span) -> Result<Option<Excerpt>, Flow> {
        let said = &block.features.seeking;
        let rules =
            mp4::Rules { buffer: said.buffer, largest_moov: said.largest_moov, start_key_frame: said.start_key_frame };
        match self.files.cut(self.state.id, file.id, (rules, span), self.token) {
            Cutting::Cut(excerpt) => Ok(excerpt),
            Cutting::Refused(why) => {
                self.tell(ErrorLevel::ERROR, || why.told(path));
                Err(Flow::Status(500))
            }
            Cutting::Changed if !core::mem::replace(&mut self.state.wait.again.sought, true) => {
                self.files.look_anew(file.id);
                Err(Flow::On)
            }
            Cutting::Changed | Cutting::Failed => {
                self.tell(ErrorLevel::CRIT, || [b"pread() \"", path, b"\" failed"].concat());
                Err(Flow::Status(500))
            }
            Cutting::Waits(mark) => {
                self.state.wait.inner = Some(mark);
                Err(Flow::Waits(On::Helper))
            }
            Cutting::Full => Err(Flow::Status(503)),
        }
    }
}

/// What is sent of an flv of `size` bytes: from the byte on that the query asks for. None is
/// all of it.
fn flv(query: &[u8], size: u64) -> Option<Excerpt> {
    let digits = argument(query, b"start").filter(|text| text.iter().all(u8::is_ascii_digit))?;
    let start: u64 = core::str::from_utf8(digits).ok()?.parse().ok()?;
    (start > 0 && start < size).then(|| Excerpt { before: Body::new(FLV_HEAD.to_vec()), content: start..size })
}
