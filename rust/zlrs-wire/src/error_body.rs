//! Error bodies in each protocol's shape.

use crate::catalogue::{Code, ErrorKind};
use crate::json::Value;
use crate::request::Protocol;

/// An error to be sent.
#[derive(Clone, Copy, Debug)]
pub struct ErrorBody<'e> {
    /// The type.
    pub kind: ErrorKind,
    /// What, limit, given and what to do.
    pub message: &'e str,
    /// What to do; the catalogue's sentence where this is `None`.
    pub suggestion: Option<&'e str>,
    /// The field at fault, for the Chat protocol's `param`.
    pub param: Option<&'e str>,
    /// A code other than the catalogue's.
    pub code: Option<&'e str>,
    /// Our request id.
    pub request_id: &'e str,
}

impl ErrorBody<'_> {
    /// The JSON body.
    ///
    /// Messages: `{"type":"error","error":{"type","message","suggestion"[,"code"]},"request_id"}`.
    /// Chat: `{"error":{"message","type","param","code","suggestion"}}`.
    #[must_use]
    pub fn to_json(&self, protocol: Protocol) -> Vec<u8> {
        let entry = self.kind.entry();
        let suggestion = Value::text(self.suggestion.unwrap_or(entry.suggestion));
        let kind = Value::text(entry.name);
        let message = Value::text(self.message);
        let historical = match entry.code {
            Some(Code::Historical(code)) => Some(code),
            _ => None,
        };
        match protocol {
            Protocol::Messages => {
                let mut error =
                    Value::object([("type", kind), ("message", message), ("suggestion", suggestion)]);
                if let Some(code) = self.code.or(historical) {
                    error.set("code", Value::text(code));
                }
                Value::object([
                    ("type", Value::text("error")),
                    ("error", error),
                    ("request_id", Value::text(self.request_id)),
                ])
            }
            Protocol::Chat => {
                let chat = match entry.code {
                    Some(Code::Chat(code)) => Some(code),
                    _ => historical,
                };
                let optional =
                    |text: Option<&'_ str>| text.map_or(Value::Null, |text| Value::text(text.to_owned()));
                Value::object([(
                    "error",
                    Value::object([
                        ("message", message),
                        ("type", kind),
                        ("param", optional(self.param)),
                        ("code", optional(self.code.or(chat))),
                        ("suggestion", suggestion),
                    ]),
                )])
            }
        }
        .to_json()
    }
}
