//! What clients say of their connection and their streams: settings, windows, priorities, resets.

use crate::connection::{Done, PROTOCOL, ServerConnection, ServerEvent, Wrong};
use crate::error::ErrorCode;
use crate::flood::Flood;
use crate::frame::{self, setting};
use crate::priority::StreamPriority;
use crate::stream::WINDOW_MAX;

/// Priorities that are kept for streams that have not begun.
const EARLY_PRIORITIES: usize = 16;

/// Less than that a window grows by is counted.
const SMALL_INCREMENT: u32 = 64;

impl<T> ServerConnection<T> {
    pub(crate) fn on_priority<'a>(&mut self, number: u32, value: &[u8]) -> Done<'a, T> {
        self.budgets.spend(Flood::Priority)?;
        let priority = StreamPriority::of_field(value);
        if let Some(stream) = self.streams.get_mut(number) {
            stream.priority = priority;
            return Ok(ServerEvent::Prioritized { stream: number });
        }
        if number.is_multiple_of(2) {
            // RFC 9218 section 7.1: of a push, and there are none.
            return Err(PROTOCOL);
        }
        if number > self.last {
            match self.early.iter().position(|(early, _)| *early == number) {
                Some(at) => self.early[at].1 = priority,
                None if self.early.len() < EARLY_PRIORITIES => self.early.push((number, priority)),
                None => self.budgets.spend(Flood::Priority)?,
            }
        }
        Ok(ServerEvent::Nothing)
    }

    pub(crate) fn on_reset<'a>(&mut self, stream: u32) -> Done<'a, T> {
        if stream > self.last {
            return Err(PROTOCOL);
        }
        let Some(stream) = self.take(stream, false) else {
            self.budgets.spend(Flood::Empty)?;
            return Ok(ServerEvent::Nothing);
        };
        if stream.dropping.is_none() {
            self.budgets.spend(Flood::RapidReset)?;
        }
        Ok(ServerEvent::Reset(stream.data))
    }

    pub(crate) fn on_settings(&mut self, entries: &[u8]) -> Result<(), Wrong> {
        for (identifier, value) in frame::settings(entries) {
            match identifier {
                setting::HEADER_TABLE_SIZE => self.encoder.set_limit(value),
                setting::ENABLE_PUSH | setting::NO_RFC7540_PRIORITIES if value > 1 => return Err(PROTOCOL),
                setting::INITIAL_WINDOW_SIZE if value > WINDOW_MAX => {
                    return Err(Wrong::Connection(ErrorCode::FLOW_CONTROL_ERROR));
                }
                setting::INITIAL_WINDOW_SIZE => {
                    let by = i64::from(value) - i64::from(self.first_window);
                    self.first_window = value;
                    // RFC 9113 section 6.9.2.
                    if !self.streams.all.iter_mut().all(|stream| stream.send.change(by)) {
                        return Err(Wrong::Connection(ErrorCode::FLOW_CONTROL_ERROR));
                    }
                }
                setting::MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => return Err(PROTOCOL),
                setting::MAX_FRAME_SIZE => self.payload = value,
                _ => {}
            }
        }
        Ok(())
    }

    pub(crate) fn on_window(&mut self, number: u32, increment: u32) -> Result<(), Wrong> {
        if increment < SMALL_INCREMENT {
            self.budgets.spend(Flood::Window)?;
        }
        let too_much = if number == 0 {
            (!self.send.change(increment.into())).then_some(Wrong::Connection(ErrorCode::FLOW_CONTROL_ERROR))
        } else if let Some(stream) = self.streams.get_mut(number) {
            (!stream.send.change(increment.into())).then_some(Wrong::Stream(number, ErrorCode::FLOW_CONTROL_ERROR))
        } else if number > self.last {
            Some(PROTOCOL)
        } else {
            // One that is over meanwhile.
            None
        };
        too_much.map_or(Ok(()), Err)
    }
}
