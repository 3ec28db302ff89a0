//! Whom a place lets in, and who asks: `allow`, `deny`, `satisfy`, `realip`,
//! `valid_referers`.

use super::arguments::{argument, is_on, told};
use super::hosts::ServerName;
use super::layer::Layer;
use super::{Compiler, Step, nowhere};
use crate::message::Place;
use crate::reader::Directive;
use app::Prefix;
use configuration::addresses::{self, Network};
use configuration::program::{RealIp, RealIpHeader, RefererHost, Referers};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

impl Compiler<'_> {
    pub(super) fn access_rule(&mut self, layer: &mut Layer, directive: &Directive, allows: bool) -> Step {
        let text = argument(directive, 0);
        let all = |address: IpAddr| (prefix(Network { address, len: 0, low_bits: false }), allows);
        let rules = match text {
            b"all" => vec![all(Ipv4Addr::UNSPECIFIED.into()), all(Ipv6Addr::UNSPECIFIED.into()), (None, allows)],
            b"unix:" => vec![(None, allows)],
            text => match addresses::network(text) {
                Some(network) => {
                    self.low_bits(network, text, directive.place);
                    vec![(prefix(network), allows)]
                }
                None => {
                    let what = format!("invalid parameter \"{}\"", told(text));
                    return Err(self.refused(directive.place, what));
                }
            },
        };
        // Both directives make one list.
        let first = layer.first("allow");
        let access = Arc::make_mut(&mut layer.block.access);
        if first {
            access.addresses.clear();
        }
        access.addresses.extend(rules);
        Ok(())
    }

    fn low_bits(&mut self, network: Network, text: &[u8], place: Place) {
        if network.low_bits {
            self.warn(place, format!("low address bits of {} are meaningless", told(text)));
        }
    }

    pub(super) fn real_ip_from(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let text = argument(directive, 0);
        let mut found = Vec::new();
        if text != b"unix:" {
            if let Some(network) = addresses::network(text) {
                self.low_bits(network, text, directive.place);
                found.extend(prefix(network));
            } else {
                let hosts = (self.around.resolve)(&told(text));
                if hosts.is_empty() {
                    let what = format!("host not found in set_real_ip_from \"{}\"", told(text));
                    return Err(self.refused(directive.place, what));
                }
                let whole = |address: IpAddr| Network {
                    address,
                    len: if address.is_ipv4() { 32 } else { 128 },
                    low_bits: false,
                };
                found.extend(hosts.into_iter().filter_map(|host| prefix(whole(host))));
            }
        }
        let first = layer.first("set_real_ip_from");
        let rules = real_ip(layer);
        if first {
            rules.from.clear();
            rules.from_unix = false;
        }
        rules.from.extend(found);
        rules.from_unix |= text == b"unix:";
        Ok(())
    }

    pub(super) fn valid_referers(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let place = directive.place;
        let mut rules = match &layer.block.referers {
            Some(rules) if layer.has("valid_referers") => (**rules).clone(),
            // What expressions the block outside has stay, if it has none of its own.
            Some(outer) => Referers {
                expressions: outer.expressions.clone(),
                host_expressions: outer.host_expressions.clone(),
                ..Referers::default()
            },
            None => Referers::default(),
        };
        layer.first("valid_referers");
        for text in &directive.arguments {
            match text.as_slice() {
                b"" => return Err(self.refused(place, "invalid referer \"\"".to_owned())),
                b"none" => rules.none = true,
                b"blocked" => rules.blocked = true,
                b"server_names" => rules.server_names = true,
                b"~" => return Err(self.refused(place, "empty regex in \"~\"".to_owned())),
                [b'~', pattern @ ..] => {
                    if layer.first("valid_referers ~") {
                        rules.expressions.clear();
                    }
                    rules.expressions.push(self.expression(pattern, true, place)?);
                }
                text => {
                    let slash = text.iter().position(|byte| *byte == b'/').unwrap_or(text.len());
                    let (name, path) = text.split_at(slash);
                    let name = name.to_ascii_lowercase();
                    let as_name = ServerName { written: Vec::new(), name: name.clone(), expression: None };
                    if !as_name.can_be_looked_for() {
                        let what = format!("invalid hostname or wildcard \"{}\"", told(&name));
                        return Err(self.refused(place, what));
                    }
                    if rules.hosts.iter().any(|known| *known.name == *name) {
                        return Err(self.refused(place, format!("conflicting parameter \"{}\"", told(&name))));
                    }
                    rules.hosts.push(RefererHost { name: name.into(), path: path.into() });
                }
            }
        }
        layer.block.referers = Some(rules.into());
        Ok(())
    }

    /// The end of a block's rules: the names of its server among them, if they
    /// are asked for.
    pub(super) fn finish_referers(&self, layer: &mut Layer) -> Step {
        let own = layer.has("valid_referers");
        let names_expressions = self.server_names.iter().any(|name| name.expression.is_some());
        let Some(rules) = layer.block.referers.as_mut().filter(|_| own) else {
            return Ok(());
        };
        let rules = Arc::make_mut(rules);
        if rules.server_names {
            if names_expressions {
                rules.host_expressions.clear();
            }
            for name in &self.server_names {
                match name.expression {
                    Some(expression) => rules.host_expressions.push(expression),
                    None => {
                        rules.hosts.push(RefererHost { name: name.name.as_slice().into(), path: Box::default() });
                    }
                }
            }
        }
        if (rules.none || rules.blocked) && rules.hosts.is_empty() {
            let what = "the \"none\" or \"blocked\" referers are specified in the \"valid_referers\" directive \
                        without any valid referer";
            return Err(nowhere(what.to_owned()));
        }
        Ok(())
    }

    pub(super) fn real_ip_header(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        real_ip(layer).header = match argument(directive, 0) {
            b"proxy_protocol" => RealIpHeader::ProxyProtocol,
            name => RealIpHeader::Field(name.to_ascii_lowercase().into()),
        };
        Ok(())
    }
}

pub(super) fn real_ip_recursive(layer: &mut Layer, directive: &Directive) {
    real_ip(layer).recursive = is_on(directive);
}

/// The rules of a block, made its own.
fn real_ip(layer: &mut Layer) -> &mut RealIp {
    let rules = layer.block.real_ip.get_or_insert_with(|| {
        let header = RealIpHeader::Field(b"x-real-ip"[..].into());
        RealIp { from: Vec::new(), from_unix: false, header, recursive: false }.into()
    });
    Arc::make_mut(rules)
}

fn prefix(network: Network) -> Option<Prefix> {
    format!("{}/{}", network.address, network.len).parse().ok()
}
