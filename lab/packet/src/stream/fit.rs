//! Whether a link takes a stream's frames.

use super::{ETHERNET, FCS, Shape, TAG};

impl Shape {
    /// Whether every frame has at most an IP packet of `mtu` bytes in it.
    ///
    /// # Errors
    /// The longest that has more, in words.
    pub(crate) fn fits(&self, mtu: usize) -> Result<(), String> {
        if let Some(replay) = &self.replay {
            return match replay.frames.longer_than(mtu) {
                None => Ok(()),
                Some((number, len, 1)) => Err(format!("frame {number} of the capture has {len} bytes")),
                Some((number, len, count)) => Err(format!(
                    "{count} of {} frames of the capture are too long, the longest is frame {number} of {len} bytes",
                    replay.frames.len()
                )),
            };
        }
        let head = ETHERNET + FCS + if self.vlan.is_some() { TAG } else { 0 };
        match self.sizes.iter().max() {
            Some(size) if usize::from(*size) > mtu + head => Err(format!("frames have {size} bytes")),
            _ => Ok(()),
        }
    }
}
