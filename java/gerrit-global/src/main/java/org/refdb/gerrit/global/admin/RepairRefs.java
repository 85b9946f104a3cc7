package org.refdb.gerrit.global.admin;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.restapi.BadRequestException;
import com.google.gerrit.sshd.CommandMetaData;
import com.google.inject.Inject;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.kohsuke.args4j.Argument;
import org.kohsuke.args4j.Option;
import org.refdb.gerrit.global.disk.Compare;
import org.refdb.gerrit.global.disk.DiskRefs;
import org.refdb.gerrit.global.disk.Repair;
import org.refdb.gerrit.global.disk.SiteProjects;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.watch.WatchService;
import org.refdb.gerrit.refs.GlobalSettled;

/** Settles the undecided updates of a project, then makes refs that differ between disk and etcd equal. */
public final class RepairRefs {
  /**
   * What to repair.
   *
   * @param refs names of the refs, or empty for all that differ
   * @param right the side whose values are right; empty to settle undecided updates only
   * @param dryRun whether to report what would be done without doing it
   * @param limit how many refs to repair at most if none is named
   */
  record Request(String project, List<String> refs, Optional<Repair.To> right, boolean dryRun, long limit) {}

  /** Outcome for the undecided updates of native mode, and for the refs. */
  record Outcome(GlobalSettled intents, Repair.Summary refs) {}

  private final GlobalRefs refs;
  private final SiteProjects site;
  private final WatchService watch;

  @Inject
  RepairRefs(GlobalRefs refs, SiteProjects site, WatchService watch) {
    this.refs = refs;
    this.site = site;
    this.watch = watch;
  }

  /** Runs a repair; {@code intentLine} and {@code refLine} are given a line for each update and each ref. */
  Outcome run(Request request, Consumer<String> intentLine, Consumer<String> refLine)
      throws IOException, GlobalRefException {
    try (DiskRefs disk = site.open(request.project())) {
      // First, because an undecided update blocks its refs.
      GlobalSettled intents = watch.settle(request.project(), request.dryRun(), intentLine);
      Repair.Summary repaired =
          request.right().isEmpty()
              ? new Repair.Summary(0, 0)
              : new Repair(refs, disk)
                  .run(request.refs(), request.limit(), request.right().get(), request.dryRun(), refLine);
      return new Outcome(intents, repaired);
    }
  }

  /**
   * The side whose values are right: exactly one of {@code to} and {@code intentsOnly} must be given, and the latter
   * without names of refs, because it settles all updates of the project.
   */
  private static Optional<Repair.To> right(String to, boolean intentsOnly, List<String> names, String usage)
      throws BadRequestException {
    Optional<Repair.To> right = Repair.To.of(to);
    boolean isUnknown = to != null && right.isEmpty();
    if (isUnknown || right.isPresent() == intentsOnly || intentsOnly && !names.isEmpty()) {
      throw new BadRequestException(usage);
    }
    return right;
  }

  /** {@code refdb-global repair PROJECT [REF...] (--to etcd|disk | --intents) [--dry-run]}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "repair", description = "Sets refs that differ to etcd's values, or etcd to this disk's")
  public static final class Command extends AdminCommand {
    @Inject private RepairRefs operation;

    @Argument(index = 0, required = true, metaVar = "PROJECT", usage = "the project's name")
    private String project;

    @Argument(index = 1, metaVar = "REF", usage = "the refs; all that differ if none is named")
    private List<String> names = new ArrayList<>();

    @Option(name = "--to", metaVar = "etcd|disk", usage = "whose values are right")
    private String to;

    @Option(name = "--intents", usage = "settle undecided updates of native mode only")
    private boolean intentsOnly;

    @Option(name = "--dry-run", usage = "say what would be done, and do nothing")
    private boolean dryRun;

    @Option(name = "--limit", metaVar = "N", usage = "repair at most this number of refs if none is named")
    private long limit = Compare.DIFFERENCES_DEFAULT;

    @Override
    void execute() throws UnloggedFailure, IOException, GlobalRefException, BadRequestException {
      Optional<Repair.To> right =
          right(
              to,
              intentsOnly,
              names,
              "say --to etcd or --to disk: whose values are right; or --intents without a REF");
      checkVisible(project);
      Outcome outcome =
          operation.run(new Request(project, names, right, dryRun, limit), stdout::println, stdout::println);
      GlobalSettled intents = outcome.intents();
      if (intentsOnly || !intents.equals(GlobalSettled.NONE)) {
        stdout.println(
            intents.settled() + (dryRun ? " updates would be settled, " : " updates settled, ") + intents.underWay()
                + " under way, " + intents.failed() + " not");
      }
      if (right.isPresent()) {
        stdout.println(
            outcome.refs().repaired() + (dryRun ? " refs would be repaired" : " refs repaired") + ", "
                + outcome.refs().failed() + " not");
        if (names.isEmpty() && outcome.refs().repaired() + outcome.refs().failed() >= limit) {
          stdout.println("stopped at --limit; more refs may differ");
        }
      }
      if (outcome.refs().failed() > 0) {
        throw die(outcome.refs().failed() + " refs could not be repaired");
      }
      if (intents.failed() > 0) {
        throw die(intents.failed() + " updates could not be settled");
      }
    }
  }

  /** Input of the REST endpoint. */
  static final class RepairInput {
    String to;
    List<String> refs;
    boolean intents;
    boolean dryRun;
  }

  /**
   * Result of the REST endpoint.
   *
   * @param failed number of refs and undecided updates that could not be repaired
   * @param refs a line for each ref
   * @param intents a line for each undecided update
   */
  record Result(long repaired, long failed, List<String> refs, long settled, long underWay, List<String> intents) {}

  /** {@code POST /projects/NAME/refdb-global~repair}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  public static final class Endpoint extends ProjectEndpoint<RepairInput, Result> {
    @Inject private RepairRefs operation;

    @Override
    Result execute(String project, RepairInput given) throws BadRequestException, IOException, GlobalRefException {
      RepairInput input = given == null ? new RepairInput() : given;
      List<String> names = input.refs == null ? List.of() : input.refs;
      Optional<Repair.To> right =
          right(
              input.to,
              input.intents,
              names,
              "say {\"to\": \"etcd\"} or {\"to\": \"disk\"}: whose values are right;"
                  + " or {\"intents\": true} without refs");
      List<String> intents = new ArrayList<>();
      List<String> lines = new ArrayList<>();
      Outcome outcome =
          operation.run(
              new Request(project, names, right, input.dryRun, Compare.DIFFERENCES_DEFAULT), intents::add, lines::add);
      GlobalSettled settled = outcome.intents();
      return new Result(
          outcome.refs().repaired(), outcome.refs().failed() + settled.failed(), lines, settled.settled(),
          settled.underWay(), intents);
    }
  }
}
