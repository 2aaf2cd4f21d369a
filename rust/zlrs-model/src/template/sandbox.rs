//! Runs a template with bounded work: no files, no includes, no way out, and limits on time, memory, depth,
//! source and output.
//!
//! Steps bound most work, but not all: the template engine charges nothing for comparing two long texts, and
//! little for two lists that share their parts a thousandfold. So there is a limit on time too. A thread cannot be
//! ended from outside: one that is over the limit is left to itself, and its template is refused for as long as it
//! runs, so that a hostile file costs the renderings that were under way and never keeps a caller, and an honest
//! one that a stalled machine made late is used again.

use std::borrow::Cow;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::time::Duration;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, context};
use minijinja_contrib::pycompat;
use regex::Regex;

use super::RenderOptions;
use super::functions;
use crate::ModelError;

/// Longest template source, in bytes.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;
/// Longest output, in bytes.
pub const MAX_OUTPUT_BYTES: usize = 8 << 20;
/// Most steps of one rendering; data cost a step for each 64 bytes, so this also bounds memory to 96 MB. Each
/// rendering gets [`fuel`] by its size.
pub const MAX_FUEL: u64 = 1_500_000;
/// Stack of the rendering thread for each step. A value can be nested about as deep as there are steps, and
/// the template engine walks values by recursion, with up to 512 bytes a level as measured. Pages that are not
/// touched cost nothing.
const STACK_BYTES_PER_STEP: u64 = 640;
const MIN_STACK_BYTES: u64 = 1 << 20;
/// Longest rendering. Published templates take milliseconds for conversations that fill a window.
pub const MAX_TIME: Duration = Duration::from_secs(10);
/// Depth of statements and calls at run time.
pub const MAX_RECURSION: usize = 64;

const NAME: &str = "chat_template";

/// Steps for a rendering of so many messages with so many bytes in all: several times what published
/// templates need.
pub(super) fn fuel(messages: usize, bytes: usize) -> u64 {
    (100_000 + 500 * messages as u64 + bytes as u64 / 4).min(MAX_FUEL)
}

pub(super) struct Sandbox {
    environment: Environment<'static>,
    /// Longest rendering.
    pub(super) limit: Duration,
    /// Alive while the rendering that went over the limit last still runs.
    late: Mutex<Weak<()>>,
}

impl Sandbox {
    pub(super) fn new(source: &str) -> Result<Self, ModelError> {
        Self::with_limit(source, MAX_TIME)
    }

    pub(super) fn with_limit(source: &str, limit: Duration) -> Result<Self, ModelError> {
        if source.len() > MAX_SOURCE_BYTES {
            let (given, limit) = (source.len() as u64, MAX_SOURCE_BYTES as u64);
            return Err(ModelError::limit("the length of the chat template in bytes", given, limit));
        }
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_recursion_limit(MAX_RECURSION);
        environment.set_unknown_method_callback(pycompat::unknown_method_callback);
        environment.set_formatter(functions::write);
        environment.add_filter("tojson", functions::tojson);
        environment.add_filter("string", functions::string);
        environment.add_filter("join", functions::join);
        // As the reference implementation sets Jinja up.
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(|error| failed(&error))?;
        environment.set_syntax(syntax);
        let source = without_generation_tags(source)?;
        environment.add_template_owned(NAME, source).map_err(|error| failed(&error))?;
        Ok(Self { environment, limit, late: Mutex::default() })
    }

    /// Renders on a thread of its own, whose stack suits the deepest values that the steps could build.
    pub(super) fn render(
        &self,
        messages: &[(&str, Cow<'_, str>)],
        bos: &str,
        eos: &str,
        options: RenderOptions,
    ) -> Result<String, ModelError> {
        if self.late.lock().unwrap_or_else(PoisonError::into_inner).strong_count() > 0 {
            return Err(self.too_slow());
        }
        let fuel = fuel(messages.len(), messages.iter().map(|(_, content)| content.len()).sum());
        let stack_bytes =
            usize::try_from(MIN_STACK_BYTES + STACK_BYTES_PER_STEP * fuel).unwrap_or(usize::MAX);
        let rendering = Rendering {
            environment: self.environment.clone(),
            messages: messages
                .iter()
                .map(|(role, content)| context! { role => *role, content => content.as_ref() })
                .collect(),
            bos: bos.to_owned(),
            eos: eos.to_owned(),
            options,
            fuel,
        };
        let (sender, receiver) = mpsc::sync_channel(1);
        let running = Arc::new(());
        let late = Arc::downgrade(&running);
        std::thread::Builder::new()
            .name("zlrs-template".into())
            .stack_size(stack_bytes)
            // Nobody listens any more when it was too slow.
            .spawn(move || {
                drop(sender.send(rendering.run()));
                drop(running);
            })
            .map_err(|source| ModelError::Io { action: "start a thread for the chat template", source })?;
        match receiver.recv_timeout(self.limit) {
            Ok(result) => result,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(ModelError::Template { what: "the template engine panicked".into() })
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                *self.late.lock().unwrap_or_else(PoisonError::into_inner) = late;
                Err(self.too_slow())
            }
        }
    }

    fn too_slow(&self) -> ModelError {
        let seconds = self.limit.as_secs_f64();
        ModelError::Template {
            what: format!(
                "it did not finish within {seconds} s and is refused while it still runs; give another template"
            ),
        }
    }
}

/// What one rendering needs, owned: it may outlive who asked for it.
struct Rendering {
    environment: Environment<'static>,
    messages: Vec<Value>,
    bos: String,
    eos: String,
    options: RenderOptions,
    fuel: u64,
}

impl Rendering {
    fn run(self) -> Result<String, ModelError> {
        let Self { mut environment, messages, bos, eos, options, fuel } = self;
        let raised = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&raised);
        let raise_exception = Value::from_function(move |message: String| -> Result<Value, Error> {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(message.clone());
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        let now_s = options.now_s;
        let strftime_now = Value::from_function(move |format: &str| functions::strftime(format, now_s));
        let context = context! {
            messages => messages,
            add_generation_prompt => options.add_generation_prompt,
            bos_token => bos,
            eos_token => eos,
            tools => (),
            documents => (),
            raise_exception => raise_exception,
            strftime_now => strftime_now,
        };
        let mut output = Output { bytes: Vec::new(), overflowed: false };
        environment.set_fuel(Some(fuel));
        let template = environment.get_template(NAME).map_err(|error| failed(&error))?;
        let result = template.render_captured_to(context, &mut output).map(drop);
        if let Some(message) = raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(ModelError::TemplateRaised { message });
        }
        if output.overflowed {
            let (given, limit) = (MAX_OUTPUT_BYTES as u64 + 1, MAX_OUTPUT_BYTES as u64);
            return Err(ModelError::limit(
                "the length of the rendered conversation in bytes, at least,",
                given,
                limit,
            ));
        }
        result.map_err(|error| match error.kind() {
            ErrorKind::OutOfFuel => ModelError::Template {
                what: format!(
                    "it did not finish within {fuel} steps; it loops, or uses far more than others"
                ),
            },
            _ => failed(&error),
        })?;
        String::from_utf8(output.bytes).map_err(|error| ModelError::Template { what: error.to_string() })
    }
}

/// Collects output up to the limit.
struct Output {
    bytes: Vec<u8>,
    overflowed: bool,
}

impl io::Write for &mut Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > MAX_OUTPUT_BYTES {
            self.overflowed = true;
            return Err(io::Error::other("output too long"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Templates mark the assistant's words with `{% generation %}` for training. Here that is a block without a
/// meaning.
fn without_generation_tags(source: &str) -> Result<String, ModelError> {
    let regex =
        |pattern| Regex::new(pattern).map_err(|error| ModelError::Template { what: error.to_string() });
    let begin = regex(r"\{%([-+]?)\s*generation\s*([-+]?)%\}")?;
    let end = regex(r"\{%([-+]?)\s*endgeneration\s*([-+]?)%\}")?;
    let opened = begin.replace_all(source, "{%${1} if true ${2}%}");
    Ok(end.replace_all(&opened, "{%${1} endif ${2}%}").into_owned())
}

fn failed(error: &Error) -> ModelError {
    ModelError::Template { what: error.to_string() }
}
