package org.refdb.gerrit.global.admin;

import io.etcd.jetcd.Client;
import io.etcd.jetcd.maintenance.AlarmMember;
import io.etcd.jetcd.maintenance.StatusResponse;
import java.util.ArrayList;
import java.util.List;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.EtcdMetrics;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.watch.LaggingRefs;
import org.refdb.gerrit.global.watch.WatchService;
import org.refdb.gerrit.refs.GlobalCounts;
import org.refdb.gerrit.refs.GlobalDecision;

/**
 * State of etcd's members and of this node.
 *
 * @param node this node's name in etcd
 * @param alarms alarms of etcd, or why it could not be asked for them; under {@code NOSPACE}, etcd refuses updates
 * @param unresolved number of updates and lock requests of this node whose outcome is unknown, and in native mode of
 *     updates that cannot be finished on this disk
 * @param locks number of locks that this node holds or waits for
 * @param behind the refs whose value in etcd has not reached this disk yet
 */
public record Status(
    String node,
    List<Member> members,
    List<String> alarms,
    long unresolved,
    int locks,
    LaggingRefs.Report behind) {
  /**
   * A member of etcd.
   *
   * @param error why it did not report its state; null if it did
   * @param leads whether it is the leader
   * @param revision revision of its data; a member with a smaller one than others lags behind
   * @param raftBehind entries of etcd's log that it has not applied yet
   * @param bytes size of its database, which the quota limits
   * @param inUse bytes in use; {@code etcdctl defrag} frees the others
   * @param quota quota in bytes; null if unknown, and not positive if the member has none
   */
  public record Member(
      String endpoint,
      String error,
      String version,
      boolean leads,
      boolean hasLeader,
      long revision,
      long raftBehind,
      long bytes,
      long inUse,
      Long quota) {
    int fragmentedPercent() {
      return bytes == 0 ? 0 : (int) ((bytes - inUse) * 100 / bytes);
    }

    private String quotaText() {
      if (quota == null) {
        return "an unknown quota";
      }
      return quota <= 0 ? "an unlimited quota" : quota + " (" + bytes * 100 / quota + " %)";
    }

    public String text() {
      if (error != null) {
        return endpoint + ": NOT REACHED: " + error;
      }
      return ("%s: etcd %s, %s, revision %d, %d entries behind its log, database %d bytes of %s,"
              + " %d in use (%d %% to be defragmented)")
          .formatted(
              endpoint,
              version,
              leads ? "leader" : hasLeader ? "follower" : "NO LEADER",
              revision,
              raftBehind,
              bytes,
              quotaText(),
              inUse,
              fragmentedPercent());
    }
  }

  /** Queries each member that {@code refdb.global.etcd} names, then etcd for its alarms. */
  public static Status ask(GlobalRefs refs, WatchService watch) {
    return ask(
        refs,
        watch.behind(),
        watch.nativeMode().map(GlobalDecision::counts).orElse(GlobalCounts.NONE).unresolved());
  }

  public static Status ask(GlobalRefs refs, LaggingRefs.Report behind, long unresolvedInNativeMode) {
    Etcd etcd = refs.etcd();
    List<Member> members = new ArrayList<>();
    for (String endpoint : etcd.settings().endpoints()) {
      members.add(member(refs, endpoint));
    }
    List<String> alarms;
    try {
      alarms =
          etcd.await(etcd.client().getMaintenanceClient().listAlarms(), refs.deadline()).getAlarms().stream()
              .map(Status::text)
              .toList();
    } catch (GlobalRefException e) {
      alarms = List.of("cannot be asked: " + e.getMessage());
    }
    long unresolved = refs.slots().unresolvedCount() + unresolvedInNativeMode;
    return new Status(refs.nodeName(), members, alarms, unresolved, refs.locks().count(), behind);
  }

  private static String text(AlarmMember alarm) {
    return alarm.getAlarmType() + " of member " + Long.toHexString(alarm.getMemberId());
  }

  private static Member member(GlobalRefs refs, String endpoint) {
    Etcd etcd = refs.etcd();
    // A separate client for each, because a client of several members sends requests to any of them.
    try (Client client = etcd.clientOf(List.of(endpoint))) {
      StatusResponse told = etcd.await(client.getMaintenanceClient().statusMember(endpoint), refs.deadline());
      return new Member(
          endpoint,
          null,
          told.getVersion(),
          told.getLeader() == told.getHeader().getMemberId(),
          told.getLeader() != 0,
          told.getHeader().getRevision(),
          Math.max(0, told.getRaftIndex() - told.getRaftAppliedIndex()),
          told.getDbSize(),
          told.getDbSizeInUse(),
          new EtcdMetrics(etcd.settings()).quota(endpoint));
    } catch (GlobalRefException e) {
      return new Member(endpoint, e.getMessage(), null, false, false, 0, 0, 0, 0, null);
    }
  }

  public boolean isGood() {
    return alarms.isEmpty()
        && unresolved == 0
        && members.stream().allMatch(member -> member.error() == null && member.hasLeader());
  }

  /** Describes the state to people, line by line. */
  public List<String> text() {
    List<String> lines = new ArrayList<>();
    lines.add(
        "node "
            + node
            + ": "
            + unresolved
            + " updates of unknown outcome or not finished, "
            + locks
            + " locks held or waited for");
    lines.add(
        behind.refs() == 0
            ? "no ref is known to be behind" + (behind.more() ? ", but some may be; see `compare`" : "")
            : behind.refs()
                + (behind.more() ? " refs and more" : " refs")
                + " are behind on this disk; "
                + behind.oldest()
                + " for "
                + behind.millis() / 1000
                + " s");
    members.forEach(member -> lines.add(member.text()));
    lines.add("alarms: " + (alarms.isEmpty() ? "none" : String.join(", ", alarms)));
    return lines;
  }
}
