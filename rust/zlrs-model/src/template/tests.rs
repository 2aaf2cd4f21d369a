//! Parts of templates that are not public.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

use std::borrow::Cow;
use std::time::Duration;

use super::RenderOptions;
use super::sandbox::Sandbox;

const OPTIONS: RenderOptions = RenderOptions { add_generation_prompt: true, now_s: 0 };

fn render(sandbox: &Sandbox) -> Result<String, String> {
    let messages = [("user", Cow::Borrowed("hello"))];
    sandbox.render(&messages, "", "", OPTIONS).map_err(|error| error.to_string())
}

/// Two lists without end when walked, made of few parts: comparing them takes few steps and does not finish.
#[test]
fn work_that_steps_do_not_count_is_ended_by_the_limit_on_time() {
    let endless = "{% set a = namespace(x=[1]) %}{% set b = namespace(x=[1]) %}\
        {% for i in range(60) %}{% set a.x = [a.x, a.x] %}{% set b.x = [b.x, b.x] %}{% endfor %}\
        {% if a.x == b.x %}same{% endif %}";
    let sandbox = Sandbox::with_limit(endless, Duration::from_millis(50)).unwrap();
    for _ in 0..3 {
        // Refused at once from the second time on: no further thread is started.
        let error = render(&sandbox).unwrap_err();
        assert!(error.contains("did not finish within 0.05 s"), "{error}");
    }
    let other = Sandbox::new("{{ messages[0].content }}").unwrap();
    assert_eq!(render(&other).unwrap(), "hello");
}

/// A machine that stands still for a moment must not take a good template away for good.
#[test]
fn a_late_rendering_that_ends_gives_its_template_back() {
    let slow = "{% for i in range(20000) %}{% set x = i %}{% endfor %}done";
    let mut sandbox = Sandbox::with_limit(slow, Duration::ZERO).unwrap();
    // A thread may be quicker than its caller now and then.
    let late = (0..1000).find_map(|_| render(&sandbox).err()).unwrap();
    assert!(late.contains("did not finish"), "{late}");
    sandbox.limit = Duration::from_secs(600);
    let back = (0..6000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        render(&sandbox).ok()
    });
    assert_eq!(back.as_deref(), Some("done"));
}
