//! `--name value`.

use std::collections::BTreeMap;
use std::fs;

/// `--name value` pairs; `--target` may come several times.
pub struct Options {
    pub values: BTreeMap<String, String>,
    pub targets: Vec<Target>,
}

/// What is asked: `NAME=HOST:PORT=BODY_FILE`. `{N}` in the body is replaced by a number of six digits.
#[derive(Clone)]
pub struct Target {
    pub name: String,
    pub address: String,
    pub body: Vec<u8>,
    pub mark: Option<usize>,
}

impl Options {
    pub fn parse(arguments: &[String]) -> Self {
        let mut options = Self { values: BTreeMap::new(), targets: Vec::new() };
        for pair in arguments.chunks(2) {
            let name = pair[0].trim_start_matches("--").to_owned();
            let value = pair.get(1).cloned().unwrap_or_default();
            if name == "target" {
                let parts: Vec<&str> = value.splitn(3, '=').collect();
                let body = fs::read(parts[2]).expect("a body file");
                let mark = body.windows(6).position(|six| six == b"{NNNN}");
                options.targets.push(Target { name: parts[0].into(), address: parts[1].into(), body, mark });
            } else {
                options.values.insert(name, value);
            }
        }
        options
    }

    pub fn number(&self, name: &str, default: u64) -> u64 {
        self.values.get(name).map_or(default, |text| text.parse().expect("a number"))
    }

    pub fn path(&self) -> &str {
        self.values.get("path").map_or("/v1/messages", String::as_str)
    }
}
