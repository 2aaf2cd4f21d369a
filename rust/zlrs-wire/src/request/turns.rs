//! System blocks and turns: what is known in them, what is ignored, which text is the ask.

use std::borrow::Cow;

use super::fields::{self, Rule, rule_of};
use super::{RequestView, attribution, is_present};
use crate::json::{Path, Value};
use crate::reason::{Reason, Refusal};

impl<'b> RequestView<'b> {
    /// The `system` field of the Messages protocol: a string or a list of text blocks.
    pub(super) fn system(&mut self, value: &mut Value<'b>, path: &Path<'_>) {
        match value {
            Value::Null => {}
            Value::String(text) => {
                if let Some(rest) = attribution::strip(text) {
                    *text = Cow::Owned(rest.to_owned());
                    self.attribution = true;
                }
            }
            Value::Array(blocks) => {
                for (index, block) in blocks.iter_mut().enumerate() {
                    self.block(block, &path.index(index));
                }
                // As a block it must be nothing but the line.
                let head = blocks.first().and_then(|block| block.get("text")).and_then(Value::as_str);
                if head.and_then(attribution::strip) == Some("") {
                    blocks.remove(0);
                    self.attribution = true;
                }
            }
            _ => self.refuse(Reason::WrongType, path),
        }
    }

    /// The `messages` field; takes the ask out of the last turn.
    pub(super) fn messages(&mut self, value: &mut Value<'b>, path: &Path<'_>) -> Result<(), Refusal> {
        let Value::Array(turns) = value else {
            return Err(Refusal::new(Reason::WrongType, path));
        };
        self.turns = turns.len();
        for (index, turn) in turns.iter_mut().enumerate() {
            self.turn(turn, &path.index(index));
        }
        match turns.last_mut() {
            None => self.refuse(Reason::NoAsk, path),
            Some(last) => {
                self.ask = take_ask(last);
                if self.ask.is_none() {
                    self.refuse(Reason::NoAsk, &path.index(self.turns - 1));
                }
            }
        }
        Ok(())
    }

    fn turn(&mut self, turn: &mut Value<'b>, path: &Path<'_>) {
        let Value::Object(members) = turn else {
            self.refuse(Reason::WrongType, path);
            return;
        };
        for (name, value) in members.iter_mut() {
            let at = path.key(name);
            match name.as_ref() {
                "role" => self.role(value, &at),
                "content" => self.content(value, &at),
                other => match rule_of(fields::turn(self.protocol), other) {
                    Some(Rule::Never(reason)) if is_present(value) => self.refuse(reason, &at),
                    Some(_) => {}
                    None => self.refuse(Reason::UnknownField, &at),
                },
            }
        }
        // The order of a turn's keys says nothing in either protocol.
        members.sort_unstable_by(|left, right| left.0.cmp(&right.0));
    }

    fn role(&mut self, value: &Value<'b>, path: &Path<'_>) {
        match value.as_str().map(|role| rule_of(fields::roles(self.protocol), role)) {
            None => self.refuse(Reason::WrongType, path),
            Some(None) => self.refuse(Reason::UnknownValue, path),
            Some(Some(Rule::Never(reason))) => self.refuse(reason, path),
            Some(Some(_)) => {}
        }
    }

    fn content(&mut self, value: &mut Value<'b>, path: &Path<'_>) {
        match value {
            Value::Null | Value::String(_) => {}
            Value::Array(blocks) => {
                for (index, block) in blocks.iter_mut().enumerate() {
                    self.block(block, &path.index(index));
                }
            }
            _ => self.refuse(Reason::WrongType, path),
        }
    }

    /// One content block: checks every field of a known kind and takes out what is ignored.
    fn block(&mut self, block: &mut Value<'b>, path: &Path<'_>) {
        let Some(Value::String(kind)) = block.get("type").cloned() else {
            self.refuse(Reason::WrongType, &path.key("type"));
            return;
        };
        match rule_of(fields::blocks(self.protocol), &kind) {
            Some(Rule::Never(reason)) => {
                self.refuse(reason, &path.key("type"));
                return;
            }
            Some(_) => {}
            None => {
                self.refuse(Reason::UnknownValue, &path.key("type"));
                return;
            }
        }
        let Value::Object(members) = block else { return };
        let table = fields::block_fields(self.protocol, &kind);
        for (name, value) in members.iter().filter(|(name, _)| name != "type") {
            let at = path.key(name);
            match rule_of(table, name) {
                Some(Rule::CacheControl) => self.check_cache_control(value, &at),
                Some(_) if name == kind.as_ref() && value.as_str().is_none() => {
                    self.refuse(Reason::WrongType, &at);
                }
                Some(_) => {}
                None => self.refuse(Reason::UnknownField, &at),
            }
        }
        members.retain(|(name, _)| !rule_of(table, name).is_some_and(Rule::is_ignored));
        members.sort_unstable_by(|left, right| left.0.cmp(&right.0));
    }
}

/// Takes the ask out of the last turn and leaves an empty string in its place. The place follows from the rest
/// of the turn, so that scope and ask together still determine the request.
fn take_ask<'b>(turn: &mut Value<'b>) -> Option<Cow<'b, str>> {
    if turn.get("role")?.as_str()? != "user" {
        return None;
    }
    let text = match turn.get_mut("content")? {
        Value::String(text) => text,
        Value::Array(blocks) => {
            let last = blocks.last_mut()?;
            if last.get("type")?.as_str()? != "text" {
                return None;
            }
            match last.get_mut("text")? {
                Value::String(text) => text,
                _ => return None,
            }
        }
        _ => return None,
    };
    if text.trim().is_empty() {
        return None;
    }
    Some(std::mem::take(text))
}
