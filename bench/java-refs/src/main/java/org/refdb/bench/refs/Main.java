package org.refdb.bench.refs;

import java.util.Collection;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.results.Result;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.options.ChainedOptionsBuilder;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;

/** {@code Main FOLDER [--small] [BENCHMARK [REFS [ENGINE...]]]}: runs the benchmarks and prints a table. */
public final class Main {
  private static final int SMALL_REFS = 3000;
  private static final int SMALL_BATCH = 100;

  private Main() {}

  /** Runs the benchmarks, and prints the table. */
  public static void main(String[] args) throws Exception {
    int next = 1;
    boolean small = args.length > next && args[next].equals("--small");
    if (small) {
      next++;
    }
    ChainedOptionsBuilder options =
        new OptionsBuilder()
            .include(args.length > next ? "\\." + args[next] + "$" : "org.refdb.bench.refs")
            .jvmArgsAppend("-Drefs.folder=" + args[0], "-Xmx3g", "--enable-native-access=ALL-UNNAMED")
            .addProfiler(GCProfiler.class)
            .shouldFailOnError(true)
            .forks(1)
            .warmupIterations(small ? 1 : 3)
            .warmupTime(TimeValue.milliseconds(small ? 20 : 1000))
            .measurementIterations(small ? 1 : 5)
            .measurementTime(TimeValue.milliseconds(small ? 20 : 1000));
    if (small) {
      System.setProperty("refs.folder", args[0]);
      options.forks(0).param("refs", String.valueOf(SMALL_REFS)).param("batch", String.valueOf(SMALL_BATCH));
    }
    if (args.length > next + 1) {
      options.param("refs", args[next + 1]);
    }
    if (args.length > next + 2) {
      options.param("engine", java.util.Arrays.copyOfRange(args, next + 2, args.length));
    }
    print(new Runner(options.build()).run());
  }

  private static void print(Collection<RunResult> runs) {
    System.out.println("\n| benchmark | engine | refs | time | +- | bytes allocated |\n|-|-|-|-|-|-|");
    for (RunResult run : runs) {
      Result<?> time = run.getPrimaryResult();
      Result<?> bytes = run.getSecondaryResults().get("gc.alloc.rate.norm");
      System.out.printf(
          "| %s | %s | %s | %.2f %s | %.2f | %s |%n",
          time.getLabel(),
          run.getParams().getParam("engine"),
          run.getParams().getParam("refs"),
          time.getScore(),
          time.getScoreUnit(),
          time.getScoreError(),
          bytes == null ? "" : String.format("%.0f", bytes.getScore()));
    }
  }
}
