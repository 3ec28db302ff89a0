use crate::cases;
use crate::strategies::*;
use proptest::collection::vec;
use proptest::prelude::*;
use wire::lacp::{LacpPdu, Marker, PDU_LEN, PortInfo, PortState, SlowPdu};
use wire::{Mac, WireError};

fn info() -> impl Strategy<Value = PortInfo> {
    let numbers = any::<(u16, u16, u16, u16, u8)>();
    (mac(), numbers).prop_map(|(system, (system_priority, key, port_priority, port, state))| PortInfo {
        system_priority,
        system,
        key,
        port_priority,
        port,
        state: PortState(state),
    })
}

fn pdu() -> impl Strategy<Value = SlowPdu> {
    let lacp = (info(), info(), any::<u16>())
        .prop_map(|(actor, partner, max_delay)| SlowPdu::Lacp(LacpPdu { actor, partner, max_delay }));
    let marker =
        (mac(), any::<(bool, u16, u32)>()).prop_map(|(requester_system, (response, requester_port, number))| {
            SlowPdu::Marker(Marker { response, requester_port, requester_system, transaction: number })
        });
    prop_oneof![lacp, marker]
}

/// IEEE 802.1AX-2014 figure 6-7.
#[test]
fn a_lacpdu_is_laid_out_as_the_standard_says() {
    let actor = PortInfo {
        system_priority: 0x8001,
        system: Mac([2, 0, 0, 0, 0, 0xaa]),
        key: 9,
        port_priority: 255,
        port: 1,
        state: PortState::ACTIVITY | PortState::SHORT_TIMEOUT | PortState::AGGREGATION,
    };
    let partner = PortInfo { system: Mac([2, 0, 0, 0, 0, 0xbb]), port: 0x0203, state: PortState(0x3d), ..actor };
    let pdu = SlowPdu::Lacp(LacpPdu { actor, partner, max_delay: 50 });
    let mut wanted = vec![1, 1];
    wanted.extend([1, 20, 0x80, 1, 2, 0, 0, 0, 0, 0xaa, 0, 9, 0, 255, 0, 1, 0x07, 0, 0, 0]);
    wanted.extend([2, 20, 0x80, 1, 2, 0, 0, 0, 0, 0xbb, 0, 9, 0, 255, 2, 3, 0x3d, 0, 0, 0]);
    wanted.extend([3, 16, 0, 50]);
    wanted.resize(PDU_LEN, 0);
    let mut out = [0xff; PDU_LEN];
    assert_eq!(pdu.emit(&mut out), PDU_LEN);
    assert_eq!(out[..], wanted);
    // A later version, other types and whatever is reserved: as this one.
    for at in [1, 2, 19, 22, 42, 60, 109] {
        out[at] = 0x55;
    }
    assert_eq!(SlowPdu::parse(&out), Ok(pdu));
    for at in [3, 23, 43] {
        let mut wrong = out;
        wrong[at] += 1;
        assert_eq!(SlowPdu::parse(&wrong), Err(WireError::BadLength));
    }
}

/// IEEE 802.1AX-2014 figure 6-28.
#[test]
fn a_marker_is_laid_out_as_the_standard_says() {
    let marker = Marker {
        response: false,
        requester_port: 7,
        requester_system: Mac([2, 0, 0, 0, 0, 0xaa]),
        transaction: 0x0102_0304,
    };
    let mut wanted = vec![2, 1, 1, 16, 0, 7, 2, 0, 0, 0, 0, 0xaa, 1, 2, 3, 4];
    wanted.resize(PDU_LEN, 0);
    let mut out = [0xff; PDU_LEN];
    assert_eq!(SlowPdu::Marker(marker).emit(&mut out), PDU_LEN);
    assert_eq!(out[..], wanted);
    out[2] = 2;
    assert_eq!(SlowPdu::parse(&out), Ok(SlowPdu::Marker(Marker { response: true, ..marker })));
    out[2] = 3;
    assert_eq!(SlowPdu::parse(&out), Err(WireError::Unsupported));
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn slow_protocols_are_parsed_as_they_were_emitted(pdu in pdu(), padding in payload(), short in 0..PDU_LEN) {
        let mut out = [0; PDU_LEN];
        prop_assert_eq!(pdu.emit(&mut out[..short]), 0);
        prop_assert_eq!(pdu.emit(&mut out), PDU_LEN);
        prop_assert_eq!(SlowPdu::parse(&[&out[..], &padding].concat()), Ok(pdu));
        prop_assert_eq!(SlowPdu::parse(&out[..short]), Err(WireError::Truncated));
    }

    #[test]
    fn any_slow_protocol_is_parsed_or_refused(mut bytes in vec(any::<u8>(), 0..160), subtype in 0..4_u8) {
        if let Some(first) = bytes.first_mut() {
            *first = subtype;
        }
        if let Ok(pdu) = SlowPdu::parse(&bytes) {
            let mut out = [0; PDU_LEN];
            prop_assert_eq!(pdu.emit(&mut out), PDU_LEN);
            prop_assert_eq!(SlowPdu::parse(&out), Ok(pdu));
        }
    }
}
