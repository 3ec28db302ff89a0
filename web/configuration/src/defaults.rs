//! What holds of a place where a configuration says nothing.

use crate::autoindex::AutoindexRules;
use crate::browsers::KeepAliveDisabled;
use crate::program::{Block, BodyRules, CharsetRules, ConnectionRules, ContentRules, FieldRules, FilterSet, HeadRules};
use crate::program::{RedirectRules, Root, SymlinkRules};
use crate::proxying::ProxyRules;
use crate::types::TypeTable;
use core::time::Duration;
use features::{FeatureSettings, MediaTypes, Value};
use std::sync::Arc;

/// `types`, where there are none.
const TYPES: [(&[u8], &[u8]); 3] = [(b"html", b"text/html"), (b"gif", b"image/gif"), (b"jpg", b"image/jpeg")];

/// `charset_types`, where there are none.
const CHARSET_TYPES: [&[u8]; 6] =
    [b"text/html", b"text/xml", b"text/plain", b"text/vnd.wap.wml", b"application/javascript", b"application/rss+xml"];

/// As nginx has it, where nothing is set; nothing is logged, and files are
/// in `html`.
impl Default for Block {
    fn default() -> Self {
        let mut types = TypeTable::default();
        TYPES.iter().for_each(|(end, media_type)| types.add(end, media_type));
        let charset = CharsetRules {
            types: MediaTypes::These(CHARSET_TYPES.iter().map(|media_type| Box::from(*media_type)).collect()),
            ..CharsetRules::default()
        };
        Self {
            label: Box::default(),
            script: Arc::default(),
            internal: false,
            root: Root { path: Value::literal(b"html"), alias: None },
            index: [Value::literal(b"index.html")].into(),
            try_files: None,
            content: ContentRules::Files,
            autoindex: AutoindexRules::default(),
            types: types.into(),
            default_type: b"text/plain"[..].into(),
            error_pages: Arc::default(),
            recursive_error_pages: false,
            features: FeatureSettings::default(),
            fields: FieldRules { etag: true, chunked: true, ..FieldRules::default() }.into(),
            charset: charset.into(),
            ssi: Arc::default(),
            filters: FilterSet::default(),
            logs: Arc::default(),
            error_logs: Arc::default(),
            log_not_found: true,
            log_subrequest: false,
            access: Arc::default(),
            limit_except: None,
            limit_rate: None,
            limit_rate_after: None,
            real_ip: None,
            referers: None,
            body_max: 1 << 20,
            body: BodyRules::default(),
            connection: ConnectionRules::default(),
            redirects: RedirectRules { absolute: true, server_name: false, port: true },
            server_tokens: true,
            msie_padding: true,
            symlinks: SymlinkRules::default(),
            early_hints: Arc::default(),
            proxy: Arc::default(),
            subrequests: Arc::default(),
            mirrors: false,
            resolver: None,
            grpc: Arc::new(ProxyRules::grpc()),
            gateways: Arc::default(),
        }
    }
}

impl Default for ConnectionRules {
    fn default() -> Self {
        Self {
            keepalive: Duration::from_secs(75),
            keepalive_told: None,
            requests: 1000,
            age: Duration::from_secs(3_600),
            disabled: KeepAliveDisabled::default(),
            body: Duration::from_secs(60),
            send: Duration::from_secs(60),
            lingering: Duration::from_secs(30),
            lingering_pause: Duration::from_secs(5),
            lingers: true,
        }
    }
}

impl Default for HeadRules {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(60), line: 8 << 10, bytes: 33 << 10, fields: 1000 }
    }
}
