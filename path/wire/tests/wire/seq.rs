//! Sequence numbers on their circle (RFC 9293 section 3.4).

use crate::cases;
use proptest::prelude::*;
use wire::tcp::SeqNum;

proptest! {
    #![proptest_config(cases(1024))]

    #[test]
    fn order_holds_across_the_wrap(start: u32, ahead in 1..1_u32 << 31) {
        let (near, far) = (SeqNum(start), SeqNum(start).plus(ahead));
        prop_assert!(near.before(far) && far.after(near));
        prop_assert!(near.at_or_before(far) && far.at_or_after(near));
        prop_assert!(!far.before(near) && !near.after(far));
        prop_assert_eq!(far.distance_from(near), ahead as i32);
        prop_assert_eq!(far.forward_from(near), ahead);
        prop_assert_eq!(far.minus(ahead), near);
        prop_assert_eq!(near.latest(far), far);
        prop_assert_eq!(far.latest(near), far);
    }

    #[test]
    fn window_holds_across_the_wrap(start: u32, len: u32, at: u32) {
        let (start, at) = (SeqNum(start), SeqNum(at));
        let inside = u64::from(at.0.wrapping_sub(start.0)) < u64::from(len);
        prop_assert_eq!(at.within(start, len), inside);
    }

    #[test]
    fn nothing_lies_before_or_after_itself(at: u32) {
        let at = SeqNum(at);
        prop_assert!(!at.before(at) && !at.after(at) && at.at_or_before(at) && at.at_or_after(at));
    }
}
