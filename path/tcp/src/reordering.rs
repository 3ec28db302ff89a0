//! What is known of segments that overtake each other on their way to a peer, for other
//! connections to it.

use crate::config::Config;
use crate::connection::Connection;

impl Connection {
    /// What was found out of segments that overtake each other on their way to
    /// the peer since this was last asked, for other connections to it: RACK's
    /// window, in quarters of the least round trip, less one (RFC 8985 section
    /// 6.2 step 4).
    pub fn take_reordering(&mut self) -> Option<u8> {
        self.cold.as_mut()?.rack.news()
    }

    /// What other connections to the peer found out of that.
    pub fn expect_reordering(&mut self, config: &Config, widened: u8) {
        let cold = self.cold_mut(config);
        cold.rack.expect(widened);
        cold.learned = true;
    }
}
