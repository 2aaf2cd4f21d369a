//! The one place where a safe function enters a path that needs processor features.

/// `dispatch!(isa, module::function(arguments))` calls the function of that name in `avx2` if `isa` asks for
/// it and the processor has it, else the one in `naive`. Both give the same bits.
macro_rules! dispatch {
    ($isa:expr, $module:ident::$function:ident($($argument:expr),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        if $isa.runs_avx2() {
            // SAFETY: the check has just found AVX2, FMA and F16C on this processor.
            #[allow(unsafe_code, reason = "entering code that needs checked processor features")]
            return unsafe { $crate::avx2::$module::$function($($argument),*) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = $isa;
        $crate::naive::$module::$function($($argument),*)
    }};
}

/// As [`dispatch`], for functions that `avx512` has as well.
macro_rules! dispatch_wide {
    ($isa:expr, $module:ident::$function:ident($($argument:expr),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        if $isa.runs_avx512() {
            // SAFETY: the check has just found AVX-512 (F, BW, VL), VNNI and all of AVX2 on this processor.
            #[allow(unsafe_code, reason = "entering code that needs checked processor features")]
            return unsafe { $crate::avx512::$module::$function($($argument),*) };
        }
        $crate::dispatch::dispatch!($isa, $module::$function($($argument),*))
    }};
}

pub(crate) use {dispatch, dispatch_wide};
