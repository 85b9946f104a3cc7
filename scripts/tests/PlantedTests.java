import static org.junit.platform.engine.discovery.DiscoverySelectors.selectPackage;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.junit.platform.engine.discovery.ClassNameFilter;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.MethodFilter;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.launcher.listeners.SummaryGeneratingListener;
import org.junit.platform.launcher.listeners.TestExecutionSummary;

/**
 * Runs JUnit's tests with planted faults, for check-planted-faults.
 *
 * <p>Reads lines of {@code FAULT CLASS METHOD}, where FAULT is {@code -} for none, and runs the tests of each in turn.
 * Answers each line with {@code RESULT}, the line and the first failure, parted by tabs. RESULT is passed, failed, or
 * none if there is no such test.
 */
public final class PlantedTests {
  private PlantedTests() {}

  public static void main(String[] arguments) throws IOException {
    try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      String line;
      while ((line = lines.readLine()) != null) {
        String[] words = line.split(" ");
        System.setProperty("refdb.planted.fault", words[0]);
        TestExecutionSummary summary = run(words[1], words[2]);
        String result =
            summary.getTestsFoundCount() == 0 ? "none" : summary.getTotalFailureCount() == 0 ? "passed" : "failed";
        String failure =
            summary.getFailures().stream()
                .map(failed -> String.valueOf(failed.getException()).lines().findFirst().orElse(""))
                .findFirst()
                .orElse("");
        System.out.println(result + "\t" + line + "\t" + failure.replace('\t', ' '));
      }
    }
    System.exit(0); // whatever a fault has left running
  }

  private static TestExecutionSummary run(String test, String method) {
    LauncherDiscoveryRequest request =
        LauncherDiscoveryRequestBuilder.request()
            .selectors(selectPackage("org.refdb"))
            .filters(
                ClassNameFilter.includeClassNamePatterns(".*\\." + test),
                MethodFilter.includeMethodNamePatterns(".*#" + method))
            .build();
    SummaryGeneratingListener listener = new SummaryGeneratingListener();
    LauncherFactory.create().execute(request, listener);
    return listener.getSummary();
  }
}
