//! What an upstream says of its connection: settings and windows.

use super::{Told, UpstreamConnection, UpstreamFault, UpstreamTold, unexpected};
use crate::error::ErrorCode;
use crate::flood::Flood;
use crate::frame::{self, Kind, PAYLOAD, setting};
use crate::stream::WINDOW_MAX;

/// The largest payload that there is.
const PAYLOAD_LIMIT: u32 = (1 << 24) - 1;

/// Less than that a window grows by is counted.
const SMALL_INCREMENT: u32 = 64;

const TOO_LARGE: &str = "upstream sent too large window update";

impl<T: Copy> UpstreamConnection<T> {
    pub(super) fn on_settings<'a>(&mut self, entries: &[u8], out: &mut Vec<u8>) -> Told<'a, T> {
        self.budgets.spend(Flood::Settings)?;
        if !self.settled {
            // None that bounds them is none (section 6.5.2).
            (self.settled, self.allowed) = (true, u32::MAX);
        }
        for (name, value) in frame::settings(entries) {
            match name {
                setting::HEADER_TABLE_SIZE => self.encoder.set_limit(value),
                setting::ENABLE_PUSH if value != 0 => return Err(unexpected(Kind::Settings)),
                setting::MAX_CONCURRENT_STREAMS => self.allowed = value,
                setting::INITIAL_WINDOW_SIZE => self.on_first_window(value)?,
                setting::MAX_FRAME_SIZE => {
                    if !(PAYLOAD as u32..=PAYLOAD_LIMIT).contains(&value) {
                        return Err(unexpected(Kind::Settings));
                    }
                    // No larger than others take, so that many share the connection.
                    self.payload = PAYLOAD;
                }
                _ => {}
            }
        }
        frame::write(out, Kind::Settings, frame::ACK, 0, &[]);
        Ok(UpstreamTold::Settings)
    }

    /// The window of new streams changes, and by as much that of those that are open (section 6.9.2).
    fn on_first_window(&mut self, value: u32) -> Result<(), UpstreamFault> {
        let too_large = || {
            let told = format!("upstream sent settings frame with too large initial window size: {value}");
            UpstreamFault::new(ErrorCode::FLOW_CONTROL_ERROR, told)
        };
        if value > WINDOW_MAX {
            return Err(too_large());
        }
        let by = i64::from(value) - i64::from(self.first_window);
        self.first_window = value;
        if self.streams.values_mut().all(|stream| stream.send.change(by)) { Ok(()) } else { Err(too_large()) }
    }

    pub(super) fn on_window<'a>(&mut self, number: u32, increment: u32, out: &mut Vec<u8>) -> Told<'a, T> {
        if increment < SMALL_INCREMENT {
            self.budgets.spend(Flood::Window)?;
        }
        if number == 0 {
            return match self.send.change(increment.into()) {
                true => Ok(UpstreamTold::Room(None)),
                false => Err(UpstreamFault::new(ErrorCode::FLOW_CONTROL_ERROR, TOO_LARGE)),
            };
        }
        match self.streams.get_mut(&number).map(|stream| (stream.send.change(increment.into()), stream.data)) {
            Some((true, data)) => Ok(UpstreamTold::Room(Some(data))),
            Some((false, _)) => self.fail(number, ErrorCode::FLOW_CONTROL_ERROR, TOO_LARGE.into(), out),
            // One that is over meanwhile.
            None => Ok(UpstreamTold::Nothing),
        }
    }
}
