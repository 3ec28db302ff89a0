//! A test as the objects of Kubernetes that it would be.

use crate::args::RenderArgs;
use crate::local::SpecFolder;
use crate::nodes;
use crate::opened::{NAMESPACE, Opened};
use manifests::{Contents, Setting, objects, yaml};
use say::{Failure, print};
use serde_json::{Value, json};
use spec::{Files, SecretKey};
use std::net::Ipv4Addr;
use std::process::ExitCode;

/// Prints the objects of a test.
///
/// # Errors
/// What the user is to know.
pub fn render(asked: &RenderArgs) -> Result<ExitCode, Failure> {
    let mut opened = Opened::open(&asked.spec, None)?;
    if opened.is_audit() {
        return nodes::render(asked, &opened);
    }
    let test = match opened.read() {
        Ok(test) => test,
        Err(wrong) => return Ok(opened.refuse(&wrong)),
    };
    // What a name means is a pod's to find out.
    let nowhere = (Ipv4Addr::UNSPECIFIED, test.target.port).into();
    let arranged = match test.arrange(nowhere, &mut Unknown(&mut opened.files)) {
        Ok(arranged) => arranged,
        Err(wrong) => return Ok(opened.refuse(&wrong)),
    };
    let drawn = "(drawn for each run)".to_owned();
    let contents = Contents {
        token: &drawn,
        key: "(of the controller's key pair)",
        tokens: &vec![drawn.clone(); test.workers as usize],
        controller: "(the controller's address)",
        request: &arranged.request,
        feed: arranged.feed.as_deref(),
    };
    let setting = Setting {
        test: &test,
        source: &opened.text,
        namespace: asked.namespace.as_deref().or(test.namespace.as_deref()).unwrap_or(NAMESPACE),
        image: asked.image.as_deref(),
        owner: None,
        contents,
    };
    let found = match objects(&setting) {
        Ok(found) => found,
        Err(wrong) => return Ok(opened.refuse(&wrong)),
    };
    if asked.json {
        let items: Vec<&Value> = found.all().to_vec();
        print!("{:#}\n", json!({ "apiVersion": "v1", "kind": "List", "items": items }));
    } else {
        print!("{}", yaml(&found.all()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Files as they are, and secrets that are not looked for.
struct Unknown<'a>(&'a mut SpecFolder);

impl Files for Unknown<'_> {
    fn secret(&mut self, key: &SecretKey) -> Result<String, String> {
        Ok(format!("(the key {} of the secret {})", key.key, key.secret))
    }

    fn data(&mut self, file: &str) -> Result<Vec<u8>, String> {
        self.0.data(file)
    }
}
